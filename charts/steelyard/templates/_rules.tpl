{{/* What the operator may do in the namespaces it serves. It reads no Secret and grants no right. Of what it makes,
     get: it looks whether the name is free. */}}
{{- define "steelyard.rules" -}}
- apiGroups: [steelyard.dev]
  resources: [agenticrljobs]
  verbs: [list, watch]
- apiGroups: [steelyard.dev]
  resources: [agenticrljobs/status, allocationrevisions/status]
  verbs: [patch]
- apiGroups: [steelyard.dev]
  resources: [agenticrljobs/finalizers]     # for blockOwnerDeletion in the owner references of children
  verbs: [update]
- apiGroups: [steelyard.dev]
  resources: [allocationrevisions]
  verbs: [get, list, watch, create, patch, delete]   # patch: what a user wrote by hand gets its job as owner
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps, services, persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch, delete]       # patch: pod-deletion-cost; delete: a trainer that outlived its Job
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [resourcequotas]
  verbs: [list, watch]                      # what a quota would refuse is not asked for
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [get, list, watch, create, patch, delete]
{{- end -}}

{{/* What only an operator of the whole cluster needs: pools and definitions have no namespace. */}}
{{- define "steelyard.clusterRules" -}}
- apiGroups: [steelyard.dev]
  resources: [rlpools]
  verbs: [list, watch]
- apiGroups: [steelyard.dev]
  resources: [rlpools/status]
  verbs: [patch]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]                      # kopf notices when our definitions come and go
{{- end -}}
