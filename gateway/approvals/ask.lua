-- Ask for an approval, or find the one that is open already.
-- KEYS: 1 the record, 2 the tenant's index of open approvals (score: end in ms).
-- ARGV: 1 id, 2 facts, 3 how long it waits in ms, 4 how long it is kept after its end in ms, 5 most open.
-- Answer: {1 found | 2 new | 0 too many open, now in ms, id}.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local known = redis.call('HMGET', KEYS[1], 'id', 'state', 'until')
if known[1] and (known[2] == 'pending' or known[2] == 'approved') and now < tonumber(known[3]) then
  return {1, now, known[1]}
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[5]) then
  return {0, now, ''}
end
local ends = now + tonumber(ARGV[3])
local kept = string.format('%.0f', ends + tonumber(ARGV[4]))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'state', 'pending', 'facts', ARGV[2],
  'asked', string.format('%.0f', now), 'until', string.format('%.0f', ends))
redis.call('PEXPIREAT', KEYS[1], kept)
redis.call('ZADD', KEYS[2], string.format('%.0f', ends), ARGV[1])
redis.call('PEXPIREAT', KEYS[2], kept)
return {2, now, ARGV[1]}
