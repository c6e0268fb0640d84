{{/* Name of everything of this release. At most 52 characters, so that a pod's name stays a label. */}}
{{- define "tidegate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that select; they never change. Takes (list . COMPONENT). */}}
{{- define "tidegate.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
{{- $root := index . 0 }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Takes (list . IMAGE). */}}
{{- define "tidegate.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The "restricted" pod security standard, the same for every pod and container of this chart. */}}
{{- define "tidegate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "tidegate.containerSecurity" -}}
runAsNonRoot: true
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "tidegate.policiesConfigMap" -}}
{{- default (printf "%s-policies" (include "tidegate.fullname" .)) .Values.policies.existingConfigMap -}}
{{- end -}}

{{/* A peer of a NetworkPolicy from podLabels and namespaceLabels. */}}
{{- define "tidegate.peer" -}}
{{- if .namespaceLabels -}}
namespaceSelector:
  matchLabels: {{- toYaml .namespaceLabels | nindent 4 }}
{{- end }}
{{- if .podLabels }}
podSelector:
  matchLabels: {{- toYaml .podLabels | nindent 4 }}
{{- end -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "tidegate.check" -}}
{{- if and .Values.redis.embedded (gt (int .Values.gateway.replicas) 1) -}}
{{- fail "redis.embedded: expected gateway.replicas: 1, because replicas must share one Redis; give a Redis URL in the Secret instead" -}}
{{- end -}}
{{- $redis := .Values.networkPolicy.redis -}}
{{- if not (or .Values.redis.embedded $redis.podLabels $redis.namespaceLabels $redis.cidrs) -}}
{{- fail "networkPolicy.redis: expected podLabels, namespaceLabels or cidrs, because the gateway reaches only listed networks" -}}
{{- end -}}
{{- if and .Values.destinations (not .Values.networkPolicy.egress) -}}
{{- fail "networkPolicy.egress: expected the networks of the hosted destinations" -}}
{{- end -}}
{{- $node := .Values.privateNode -}}
{{- if not (or $node.enabled .Values.destinations) -}}
{{- fail "destinations: expected at least one, or privateNode.enabled: true" -}}
{{- end -}}
{{- if hasKey .Values.destinations $node.destination -}}
{{- fail "destinations: the private node's name is not the name of a hosted one; see privateNode.destination" -}}
{{- end -}}
{{- if and $node.enabled (eq $node.profile "file") (not $node.profileToml) -}}
{{- fail "privateNode.profileToml: expected the text of a profile, because privateNode.profile is file" -}}
{{- end -}}
{{- end -}}
