-- Move an open approval from one state to the next, once.
-- KEYS: as in ask.lua. ARGV: 1 id, 2 state that it must have, 3 next state, 4 who approves or denies (empty:
-- stays as it is), 5 how long it is open from now on in ms, 6 how long it is kept after its end in ms.
-- Answer: 1 moved, 0 not: another id, another state, or too late.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local known = redis.call('HMGET', KEYS[1], 'id', 'state', 'until')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or now >= tonumber(known[3]) then
  return 0
end
local ends = now + tonumber(ARGV[5])
local kept = string.format('%.0f', ends + tonumber(ARGV[6]))
redis.call('HSET', KEYS[1], 'state', ARGV[3], 'until', string.format('%.0f', ends))
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], 'by', ARGV[4])
end
redis.call('PEXPIREAT', KEYS[1], kept)
if ARGV[3] == 'approved' then
  redis.call('ZADD', KEYS[2], string.format('%.0f', ends), ARGV[1])
else
  redis.call('ZREM', KEYS[2], ARGV[1])
end
redis.call('PEXPIREAT', KEYS[2], kept, 'GT')
return 1
