{{- define "skillserve.labels" -}}
app.kubernetes.io/name: skillserve
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "skillserve.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{- define "skillserve.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "skillserve.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
