-- Offered only where Git leaves spec.suspend out: what Git says, Argo CD would set back.
local function inGit()
  for _, entry in ipairs(obj.metadata.managedFields or {}) do
    local spec = (entry.fieldsV1 or {})["f:spec"] or {}
    if entry.manager == "argocd-controller" and spec["f:suspend"] ~= nil then
      return true
    end
  end
  return false
end

local git = inGit()
local suspended = obj.spec.suspend == true

return {
  suspend = { disabled = git or suspended, iconClass = "fa fa-fw fa-pause-circle" },
  resume = { disabled = git or not suspended, iconClass = "fa fa-fw fa-play-circle" },
}
