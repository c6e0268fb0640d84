#!lua flags=no-writes
-- Ids of a tenant's open approvals, the one that ends first at the top. KEYS: 1 the index, 2 the same.
-- ARGV: 1 most ids. Answer: list of ids.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
return redis.call('ZRANGE', KEYS[1], '(' .. string.format('%.0f', now), '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[1])
