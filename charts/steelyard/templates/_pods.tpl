{{/* How images of the release's pods are pulled, and where the pods run. */}}
{{- define "steelyard.placement" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Without these pods nothing is decided: what goes before them. */}}
{{- define "steelyard.priority" -}}
{{- if .Values.priorityClasses.create }}
priorityClassName: {{ include "steelyard.operator" . }}
{{- else if .Values.priorityClassName }}
priorityClassName: {{ .Values.priorityClassName }}
{{- end }}
{{- end -}}
