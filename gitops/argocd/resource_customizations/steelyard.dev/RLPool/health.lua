local status = obj.status or {}
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "the pool is being deleted" }
end
if status.observedGeneration ~= obj.metadata.generation or conditions.Ready == nil then
  return { status = "Progressing", message = "the operator has not looked at this spec yet" }
end

local message = conditions.Ready.reason .. ": " .. (conditions.Ready.message or "")
if conditions.Stalled ~= nil and conditions.Stalled.status == "True" then
  return { status = "Degraded", message = message }
end
if conditions.Ready.status == "True" then
  return { status = "Healthy", message = message }
end
return { status = "Progressing", message = message }
