#!lua flags=no-writes
-- Read an approval. KEYS: as in ask.lua. Answer: {now in ms, id, state, facts, asked, until, by}; what there is
-- not is nil or false, so a reader looks at the id first.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local known = redis.call('HMGET', KEYS[1], 'id', 'state', 'facts', 'asked', 'until', 'by')
return {now, known[1], known[2], known[3], known[4], known[5], known[6]}
