#!lua
-- Take one request, tokens and a slot of one tenant, or nothing. Same as TenantBuckets.reserve.
-- KEYS: 1 buckets (hash r, t, at), 2 leases (sorted set: id by end in ms), 3 record of this id
--       (hash n tokens, l lease end, k kept until, s settled). All three share one hash tag.
-- ARGV: 1 id, 2 tokens, 3 lease ms, 4 keep ms, 5 requests limit, 6 tokens limit, 7 concurrency limit
-- Answer: the fields of bucket.Reply, all integers.
-- The first line makes the server refuse the whole script, before it runs, when memory is full (OOM) or
-- when it is a read-only replica (READONLY). Without it a script whose first write only removes something
-- goes on writing to a full server. Needs Valkey or Redis 7.
-- All reads that can fail stand before the first bucket write: an error leaves nothing half done.
local GRAINS, REFILL_MS_MAX, NEVER, SLOT = 60000, 120000, 60, 1
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local id, need = ARGV[1], tonumber(ARGV[2])
local lease_ms, keep_ms = tonumber(ARGV[3]), tonumber(ARGV[4])
local rlimit, tlimit, climit = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

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

local function wait(level, units, limit)
  if units > limit then
    return NEVER
  end
  local short = units * GRAINS - level
  if short <= 0 then
    return 0
  end
  return math.max(1, math.ceil(short / (limit * 1000)))
end

local function reset(level, limit)
  if limit == 0 then
    return 0
  end
  return math.ceil((limit * GRAINS - level) / (limit * 1000))
end

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now))
local bucket = redis.call('HMGET', KEYS[1], 'r', 't', 'at')
local record = redis.call('HMGET', KEYS[3], 'n', 'l', 'k', 's')
local held = redis.call('ZCARD', KEYS[2])
local since = tonumber(bucket[3] or '0')
local requests = refill(bucket[1] and tonumber(bucket[1]), since, rlimit)
local tokens = refill(bucket[2] and tonumber(bucket[2]), since, tlimit)

local function answer(outcome, taken, retry)
  local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
  local until_ms = last[2] and tonumber(last[2]) or now
  return {
    outcome, now, taken,
    math.max(0, math.floor(requests / GRAINS)), reset(requests, rlimit),
    math.max(0, math.floor(tokens / GRAINS)), reset(tokens, tlimit),
    math.max(0, climit - held), math.ceil((until_ms - now) / 1000),
    retry,
  }, until_ms
end

if record[1] and now < tonumber(record[3]) then
  if record[4] or now >= tonumber(record[2]) then
    return (answer(-4, 0, SLOT))
  end
  return (answer(2, tonumber(record[1]), 0))
end

local outcome, longest = -1, wait(requests, 1, rlimit)
local tokens_wait = wait(tokens, need, tlimit)
if tokens_wait > longest then
  outcome, longest = -2, tokens_wait
end
local slot_wait = 0
if held >= climit then
  slot_wait = climit == 0 and NEVER or SLOT
end
if slot_wait > longest then
  outcome, longest = -3, slot_wait
end
if longest > 0 then
  return (answer(outcome, 0, longest))
end

requests = requests - GRAINS
tokens = tokens - need * GRAINS
held = held + 1
local lease_until, kept_until = now + lease_ms, now + keep_ms
-- A full bucket needs no key: after REFILL_MS_MAX it is full whatever its level was.
redis.call('HSET', KEYS[1], 'r', text(requests), 't', text(tokens), 'at', text(now))
redis.call('PEXPIREAT', KEYS[1], text(now + REFILL_MS_MAX + 1000))
redis.call('ZADD', KEYS[2], text(lease_until), id)
redis.call('DEL', KEYS[3])
redis.call('HSET', KEYS[3], 'n', text(need), 'l', text(lease_until), 'k', text(kept_until))
redis.call('PEXPIREAT', KEYS[3], text(kept_until + 1000))
local reply, last_ms = answer(1, need, 0)
redis.call('PEXPIREAT', KEYS[2], text(last_ms + 1000))
return reply
