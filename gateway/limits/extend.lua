-- Go on holding a slot, and book tokens beyond those reserved. Same as Buckets.extend.
-- ARGV: 1 id, 2 tokens held from now on (less than before: as before), 3 lease ms, 4 keep ms, then five
-- limits for each quota. Answer: {1 extended | 0 nothing to extend, now in ms}.
local id, wanted, lease_ms, keep_ms =
  ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local record = redis.call('HMGET', KEYS[1], 'n', 'k', 's')
if not record[1] or record[3] or now >= tonumber(record[2]) then
  return {0, now}
end
local quotas = look(5)
local held = tonumber(record[1])
local lease_until, kept_until = now + lease_ms, now + keep_ms
redis.call('HSET', KEYS[1], 'n', text(math.max(held, wanted)), 'l', text(lease_until), 'k', text(kept_until))
redis.call('PEXPIREAT', KEYS[1], text(kept_until + 1000))
for _, q in ipairs(quotas) do
  q.D = q.D + math.max(0, wanted - held)
  repay(q)
  store(q)
  redis.call('ZADD', q.leases, text(lease_until), id)
  expire_leases(q)
end
return {1, now}
