-- Reads the conditions alone. None of them changes when the operator moves replicas, so a rebalance never shows here.
local status = obj.status or {}
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function is(kind, value)
  return conditions[kind] ~= nil and conditions[kind].status == value
end

local function words(kind)
  local condition = conditions[kind]
  if condition.message == nil or condition.message == "" then
    return condition.reason
  end
  return condition.reason .. ": " .. condition.message
end

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "the job is being deleted" }
end
if status.observedGeneration ~= obj.metadata.generation or conditions.Ready == nil then
  return { status = "Progressing", message = "the operator has not looked at this spec yet" }
end
for _, kind in ipairs({ "Failed", "Stalled" }) do
  if is(kind, "True") then
    return { status = "Degraded", message = words(kind) }
  end
end
if is("Complete", "True") then
  return { status = "Healthy", message = words("Complete") }
end
if is("Suspended", "True") then
  return { status = "Suspended", message = words("Suspended") }
end
if is("Degraded", "True") then
  return { status = "Degraded", message = words("Degraded") }
end
if is("Ready", "True") then
  -- Work goes on without metrics and beside a foreign autoscaler: worth a word, no reason to stop a sync.
  local message = words("Ready")
  if is("MetricsAvailable", "False") then
    message = message .. ". No move without metrics: " .. words("MetricsAvailable")
  end
  if is("Conflict", "True") then
    message = message .. ". " .. words("Conflict")
  end
  return { status = "Healthy", message = message }
end
if is("Reconciling", "False") and conditions.Ready.reason == "WaitingForGpus" then
  return { status = "Suspended", message = words("Ready") }
end
return { status = "Progressing", message = words("Ready") }
