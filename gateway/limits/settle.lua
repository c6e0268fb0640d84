#!lua flags=allow-oom
-- Give back what was not used, or book the overdraft; free the slot. Same as TenantBuckets.settle.
-- KEYS: as in reserve.lua. ARGV: 1 id, 2 used tokens (-1: nothing was sent), 3 requests limit,
-- 4 tokens limit. Answer: {1 settled | 0 nothing to settle, now in ms}.
-- Allowed on a full server, because it shortens what is kept.
-- The record stays as a tombstone for a while, so that a second call does nothing.
local GRAINS, REFILL_MS_MAX, TOMBSTONE_MS = 60000, 120000, 60000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local used, rlimit, tlimit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local function text(number)
  return string.format('%.0f', number)
end

local function refill(level, since, limit)
  local capacity = limit * GRAINS
  if not level then
    return capacity
  end
  local elapsed = math.min(math.max(0, now - since), REFILL_MS_MAX)
  return math.min(capacity, math.max(-capacity, math.min(capacity, level)) + elapsed * limit)
end

local record = redis.call('HMGET', KEYS[3], 'n', 'k', 's')
if not record[1] or record[3] or now >= tonumber(record[2]) then
  return {0, now}
end
local bucket = redis.call('HMGET', KEYS[1], 'r', 't', 'at')
local since = tonumber(bucket[3] or '0')
local requests = refill(bucket[1] and tonumber(bucket[1]), since, rlimit)
local tokens = refill(bucket[2] and tonumber(bucket[2]), since, tlimit)
if used < 0 then
  requests = math.min(rlimit * GRAINS, requests + GRAINS)
  used = 0
end
local capacity = tlimit * GRAINS
tokens = math.max(-capacity, math.min(capacity, tokens + (tonumber(record[1]) - used) * GRAINS))
redis.call('ZREM', KEYS[2], ARGV[1])
local kept_until = math.min(tonumber(record[2]), now + TOMBSTONE_MS)
redis.call('HSET', KEYS[3], 's', '1', 'k', text(kept_until))
redis.call('PEXPIREAT', KEYS[3], text(kept_until + 1000))
redis.call('HSET', KEYS[1], 'r', text(requests), 't', text(tokens), 'at', text(now))
redis.call('PEXPIREAT', KEYS[1], text(now + REFILL_MS_MAX + 1000))
return {1, now}
