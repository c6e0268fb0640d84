-- Take one request, tokens, money and a slot of every quota, or nothing. Same as Buckets.reserve.
-- ARGV: 1 id, 2 tokens, 3 cost, 4 lease ms, 5 keep ms, then five limits for each quota.
-- Answer: the fields of bucket.Reply, all integers, eight for each quota at the end.
-- The flags in the first line make the server refuse the whole script, before it runs, when memory is full
-- (OOM) or when it is a read-only replica (READONLY). Without it a script whose first write only removes
-- something goes on writing to a full server. Needs Valkey or Redis 7.
-- All reads that can fail stand before the first write of a sum: an error leaves nothing half done.
local id, need, cost = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local lease_ms, keep_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local quotas = look(6)
local record = redis.call('HMGET', KEYS[1], 'n', 'l', 'k', 's')
for _, q in ipairs(quotas) do
  redis.call('ZREMRANGEBYSCORE', q.leases, '-inf', text(now))
  q.held = redis.call('ZCARD', q.leases)
end

local function until_slot(number)
  return math.ceil((number * SLOT_MS - now) / 1000)
end

local function reset(q, sum, debt)
  if sum + debt == 0 then
    return 0
  end
  return math.max(0, until_slot((debt > 0 and slot or q.at) + (debt > 0 and 2 or 1) * SLOTS))
end

local function answer(outcome, taken, retry, which)
  local reply = {outcome, now, taken, retry, which}
  for _, q in ipairs(quotas) do
    local last = redis.call('ZRANGE', q.leases, -1, -1, 'WITHSCORES')
    local until_ms = last[2] and tonumber(last[2]) or now
    for _, number in ipairs({
      math.max(0, q.requests - q.R), reset(q, q.R, 0),
      math.max(0, q.tokens - q.T - q.D), reset(q, q.T, q.D),
      math.max(0, q.slots - q.held), math.ceil((until_ms - now) / 1000),
      q.day_limit < 0 and -1 or math.max(0, q.day_limit - q.day_spent),
      q.month_limit < 0 and -1 or math.max(0, q.month_limit - q.month_spent),
    }) do
      reply[#reply + 1] = number
    end
  end
  return reply
end

if record[1] and now < tonumber(record[3]) then
  if record[4] or now >= tonumber(record[2]) then
    return answer(-4, 0, SLOT_WAIT, 0)
  end
  return answer(2, tonumber(record[1]), 0, 0)
end

-- Seconds until `short` of a window has left it; a debt that is larger than that takes a second window.
local function freed(q, kind, short)
  local fields = {}
  for j = slot - SLOTS + 1, slot do
    fields[#fields + 1] = kind .. j % SLOTS
  end
  local values = redis.call('HMGET', q.window, unpack(fields))
  local sum = 0
  for k = 1, SLOTS do
    local j = slot - SLOTS + k
    if j > q.at then
      break
    end
    sum = sum + tonumber(values[k] or '0')
    if sum >= short then
      return until_slot(j + SLOTS)
    end
  end
  return until_slot(slot + 2 * SLOTS)
end

local function wait(q, kind, sum, units, limit)
  if units > limit then
    return NEVER
  end
  local short = sum + units - limit
  return short > 0 and freed(q, kind, short) or 0
end

local outcome, longest, which = 0, 0, 0
local function consider(code, seconds, n)
  if seconds > longest then
    outcome, longest, which = code, seconds, n
  end
end
for n, q in ipairs(quotas) do
  consider(-1, wait(q, 'r', q.R, 1, q.requests), n - 1)
  consider(-2, wait(q, 't', q.due, need, q.tokens), n - 1)
  if q.held >= q.slots then
    consider(-3, q.slots == 0 and NEVER or SLOT_WAIT, n - 1)
  end
  if q.day_limit >= 0 and q.day_spent + cost > q.day_limit then
    consider(-5, math.max(1, math.ceil(((q.day + 1) * DAY_MS - now) / 1000)), n - 1)
  end
  if q.month_limit >= 0 and q.month_spent + cost > q.month_limit then
    consider(-6, math.max(1, math.ceil((q.next_month * DAY_MS - now) / 1000)), n - 1)
  end
end
if longest > 0 then
  return answer(outcome, 0, longest, which)
end

local lease_until, kept_until = now + lease_ms, now + keep_ms
if record[1] then
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], 'n', text(need), 'f', text(need), 'i', text(slot), 'u', text(cost),
  'd', text(math.floor(now / DAY_MS)), 'l', text(lease_until), 'k', text(kept_until))
redis.call('PEXPIREAT', KEYS[1], text(kept_until + 1000))
for _, q in ipairs(quotas) do
  repay(q)
  q.R, q.r, q.T, q.t, q.held = q.R + 1, q.r + 1, q.T + need, q.t + need, q.held + 1
  store(q)
  if q.day then
    q.day_spent, q.month_spent = q.day_spent + cost, q.month_spent + cost
    store_money(q)
  end
  redis.call('ZADD', q.leases, text(lease_until), id)
  expire_leases(q)
end
return answer(1, need, 0, 0)
