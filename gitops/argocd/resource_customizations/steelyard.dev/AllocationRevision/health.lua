-- A hold or trial that a user wrote is Degraded when the operator did not keep it: then Git asks for what does not run.
-- A move of the operator's own that it took back is work well done.
local status = obj.status or {}
local phase = status.phase or "Pending"
local byUser = obj.spec.origin == "User"

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "the revision is being deleted" }
end
if phase == "Pending" or phase == "Applying" then
  return { status = "Progressing", message = phase }
end

local message = status.verdict or phase
if status.evidence ~= nil then
  message = message .. ": " .. status.evidence
end
local neverApplied = phase == "Superseded" and status.appliedTime == nil
if byUser and (status.verdict == "RolledBack" or neverApplied) then
  return { status = "Degraded", message = message }
end
return { status = "Healthy", message = message }
