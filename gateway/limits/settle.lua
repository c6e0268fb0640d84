-- Give back what was not used, or book the overdraft; free the slot. Same as Buckets.settle.
-- ARGV: 1 id, 2 used tokens (-1: nothing was sent), 3 used cost, then five limits for each quota.
-- Answer: {1 settled | 0 nothing to settle, now in ms}.
-- Allowed on a full server, because it shortens what is kept.
-- The record stays as a tombstone for a while, so that a second call does nothing.
local used, used_cost = tonumber(ARGV[2]), tonumber(ARGV[3])
local record = redis.call('HMGET', KEYS[1], 'n', 'k', 's', 'i', 'u', 'd', 'f')
if not record[1] or record[3] or now >= tonumber(record[2]) then
  return {0, now}
end
local quotas = look(4)
local held, first, from = tonumber(record[1]), tonumber(record[7]), tonumber(record[4])
local cost_change = (used < 0 and 0 or used_cost) - tonumber(record[5])
local from_day = tonumber(record[6])
local from_month = civil(from_day)
local back_requests = used < 0 and 1 or 0
used = math.max(0, used)
for _, q in ipairs(quotas) do
  if from > slot - SLOTS and from <= q.at then
    local here = 'r' .. from % SLOTS
    local there = 't' .. from % SLOTS
    local r, t = q.r, q.t
    if from ~= slot then
      local pair = redis.call('HMGET', q.window, here, there)
      r, t = tonumber(pair[1] or '0'), tonumber(pair[2] or '0')
    end
    local back_r = math.min(back_requests, r)
    local back_t = math.min(math.max(0, math.min(held - used, first)), t)
    q.R, q.T = q.R - back_r, q.T - back_t
    if from == slot then
      q.r, q.t = r - back_r, t - back_t
    else
      q.fix = {here, text(r - back_r), there, text(t - back_t)}
    end
  end
  q.D = q.D + math.max(0, used - held)
  repay(q)
  if q.day then
    if q.day == from_day or cost_change > 0 then
      q.day_spent = math.max(0, q.day_spent + cost_change)
    end
    if q.month == from_month or cost_change > 0 then
      q.month_spent = math.max(0, q.month_spent + cost_change)
    end
  end
end
local kept_until = math.min(tonumber(record[2]), now + TOMBSTONE_MS)
redis.call('HSET', KEYS[1], 's', '1', 'k', text(kept_until))
redis.call('PEXPIREAT', KEYS[1], text(kept_until + 1000))
for _, q in ipairs(quotas) do
  if q.fix then
    redis.call('HSET', q.window, unpack(q.fix))
  end
  store(q)
  store_money(q)
  redis.call('ZREM', q.leases, ARGV[1])
end
return {1, now}
