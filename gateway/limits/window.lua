-- What reserve.lua, settle.lua and extend.lua share; put before each of them. Same as bucket.py.
-- KEYS: 1 record of this id (hash n tokens held, f tokens first reserved, i slot, u cost, d day, m month,
-- l lease end, k kept until, s settled), then three for each quota: window (hash: i newest slot, R and T
-- sums of the window, D debt, r<k> and t<k> of slot k modulo SLOTS), leases (sorted set: id by end in ms),
-- money (hash: d day, D spent in it, m month, M spent in it). All share one hash tag.
local SLOT_MS, SLOTS, NEVER, SLOT_WAIT, TOMBSTONE_MS = 1000, 61, 60, 1, 60000
local DAY_MS, MONEY_KEPT_MS = 86400000, 2764800000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local slot = math.floor(now / SLOT_MS)

local function text(number)
  return string.format('%.0f', number)
end

-- Unix day to month (year * 12 + month), day of month, first day of next month. Source: H. Hinnant,
-- "chrono-compatible low-level date algorithms", civil_from_days.
local function civil(day)
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor(
    (doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local date = doy - math.floor((153 * mp + 2) / 5) + 1
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  local length = ({31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31})[month]
  if month == 2 and (year % 4 == 0 and year % 100 ~= 0 or year % 400 == 0) then
    length = 29
  end
  return year * 12 + month - 1, date, day - date + 1 + length
end

-- The quotas, their five limits standing in ARGV from `first` on; -1: no such budget. Windows are read
-- and brought to the present here; nothing is written yet.
local function look(first)
  local quotas, guess = {}, slot % SLOTS
  for n = 1, (#KEYS - 1) / 3 do
    local at = first + (n - 1) * 5
    local q = {
      window = KEYS[3 * n - 1], leases = KEYS[3 * n], money = KEYS[3 * n + 1],
      requests = tonumber(ARGV[at]), tokens = tonumber(ARGV[at + 1]), slots = tonumber(ARGV[at + 2]),
      day_limit = tonumber(ARGV[at + 3]), month_limit = tonumber(ARGV[at + 4]),
    }
    q.raw = redis.call('HMGET', q.window, 'i', 'R', 'T', 'D', 'r' .. guess, 't' .. guess)
    q.at = tonumber(q.raw[1] or '0')
    slot = math.max(slot, q.at)
    quotas[n] = q
  end
  for _, q in ipairs(quotas) do
    local raw, gap = q.raw, slot - q.at
    q.R, q.T, q.D = tonumber(raw[2] or '0'), tonumber(raw[3] or '0'), tonumber(raw[4] or '0')
    q.r, q.t = 0, 0
    if gap >= SLOTS then
      q.R, q.T, q.is_over = 0, 0, true
    elseif gap > 0 then
      local fields = {}
      for j = q.at + 1, slot do
        fields[#fields + 1] = 'r' .. j % SLOTS
        fields[#fields + 1] = 't' .. j % SLOTS
      end
      local old = redis.call('HMGET', q.window, unpack(fields))
      for k = 1, #fields, 2 do
        q.R = q.R - tonumber(old[k] or '0')
        q.T = q.T - tonumber(old[k + 1] or '0')
      end
      q.gone = fields
    else
      local here = slot % SLOTS
      local pair = {raw[5], raw[6]}
      if here ~= guess then
        pair = redis.call('HMGET', q.window, 'r' .. here, 't' .. here)
      end
      q.r, q.t = tonumber(pair[1] or '0'), tonumber(pair[2] or '0')
    end
    q.D = gap >= 2 * SLOTS and 0 or math.min(q.D, q.tokens)
    q.due = q.T + q.D
    if q.day_limit >= 0 or q.month_limit >= 0 then
      local money = redis.call('HMGET', q.money, 'd', 'D', 'm', 'M')
      local day = math.floor(now / DAY_MS)
      q.day = math.max(day, tonumber(money[1] or '0'))
      q.month, q.date, q.next_month = civil(q.day)
      q.day_spent = q.day == tonumber(money[1] or '-1') and tonumber(money[2]) or 0
      q.month_spent = q.month == tonumber(money[3] or '-1') and tonumber(money[4]) or 0
    end
  end
  return quotas
end

-- Debt takes what room there is before any request does.
local function repay(q)
  local part = math.min(q.D, math.max(0, q.tokens - q.T))
  q.T, q.t, q.D = q.T + part, q.t + part, math.min(q.D - part, q.tokens)
end

local function store(q)
  if q.is_over then
    redis.call('DEL', q.window)
  elseif q.gone then
    redis.call('HDEL', q.window, unpack(q.gone))
  end
  local here = slot % SLOTS
  redis.call('HSET', q.window, 'i', text(slot), 'R', text(q.R), 'T', text(q.T), 'D', text(q.D),
    'r' .. here, text(q.r), 't' .. here, text(q.t))
  redis.call('PEXPIREAT', q.window, text((slot + 2 * SLOTS + 1) * SLOT_MS))
  q.at = slot
end

local function store_money(q)
  if q.day then
    redis.call('HSET', q.money, 'd', text(q.day), 'D', text(q.day_spent),
      'm', text(q.month), 'M', text(q.month_spent))
    redis.call('PEXPIREAT', q.money, text(now + MONEY_KEPT_MS))
  end
end

local function expire_leases(q)
  local last = redis.call('ZRANGE', q.leases, -1, -1, 'WITHSCORES')
  if last[2] then
    redis.call('PEXPIREAT', q.leases, text(tonumber(last[2]) + 1000))
  end
end
