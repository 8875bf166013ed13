{{/* The operator's settings (`python -m steelyard --help`), without their prefix STEELYARD_. */}}
{{- define "steelyard.settings" -}}
PROMETHEUS_URL: {{ include "steelyard.prometheusUrl" . | quote }}
PROMETHEUS_TIMEOUT_SECONDS: {{ .Values.prometheus.timeoutSeconds }}
{{- if include "steelyard.prometheusSecret" . }}
PROMETHEUS_SECRET: {{ include "steelyard.secretFolder" . }}
{{- end }}
LEASE_NAME: {{ include "steelyard.operator" . | quote }}
LOG_LEVEL: {{ .Values.logLevel }}
IMAGE_SAMPLER: {{ include "steelyard.image" (list . "sampler") | quote }}
IMAGE_ENVIRONMENT: {{ include "steelyard.image" (list . "worker") | quote }}
IMAGE_REWARD_SERVER: {{ include "steelyard.image" (list . "worker") | quote }}
IMAGE_TRAINER: {{ include "steelyard.image" (list . "trainer") | quote }}
IMAGE_NATS: {{ include "steelyard.image" (list . "nats") | quote }}
{{- with .Values.watchNamespaces }}
NAMESPACES: {{ join "," . | quote }}
{{- end }}
{{- if include "steelyard.monitors" (list . .Values.monitoring.podMonitor "PodMonitor") }}
POD_MONITORS: "false"
{{- end }}
{{- end -}}
