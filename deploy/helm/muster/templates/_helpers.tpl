{{/* The installed services, by name, each with its values over the defaults. */}}
{{- define "muster.services" -}}
{{- $services := dict -}}
{{- range $name, $own := .Values.services -}}
{{- if dig "enabled" true $own -}}
{{- $_ := set $services $name (mergeOverwrite (deepCopy $.Values.defaults) (deepCopy $own)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $services -}}
{{- end -}}

{{/* A file of the chart. Fails where it is missing or empty, because an installation without accounts or NATS users would look complete. */}}
{{- define "muster.file" -}}
{{- $root := index . 0 -}}
{{- $path := printf "files/%s" (index . 1) -}}
{{- $text := $root.Files.Get $path -}}
{{- if or (not (trim $text)) (hasPrefix "../" $text) -}}
{{- fail (printf "the chart is incomplete: %s is missing or empty. The entries of its folder `files` are links into the repository; a copy must keep the links or contain their targets" $path) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* A file of deploy/kubernetes with the namespaces of this installation. Placeholders come first, because a new namespace may equal an old one. */}}
{{- define "muster.rights" -}}
{{- $root := index . 0 -}}
{{- include "muster.file" (list $root (printf "rights/%s.yaml" (index . 1)))
  | replace "muster-system" "<services>"
  | replace "namespace: default" "namespace: <work>"
  | replace "namespace: machines" "namespace: <machines>"
  | replace "<services>" $root.Release.Namespace
  | replace "<work>" $root.Values.workNamespace
  | replace "<machines>" $root.Values.nodeScaler.machinesNamespace -}}
{{- end -}}

{{- define "muster.labels" -}}
app.kubernetes.io/part-of: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "muster.image" -}}
{{- $root := index . 0 -}}
{{- if not $root.Values.image.repository -}}
{{- fail "image.repository is empty: set it to the registry of your images, for example image.repository=registry.example.com/muster. `npm run images -- --repository registry.example.com/muster --push` builds and pushes them" -}}
{{- end -}}
{{- $digest := get $root.Values.image.digests (index . 1) -}}
{{- if and $digest (not $root.Values.image.tag) -}}
{{ printf "%s/%s@%s" $root.Values.image.repository (index . 1) $digest }}
{{- else -}}
{{ printf "%s/%s:%s" $root.Values.image.repository (index . 1) (default $root.Chart.AppVersion $root.Values.image.tag) }}
{{- end -}}
{{- end -}}

{{- define "muster.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The requirements of the level `restricted` for pods and containers, and a read-only file system. */}}
{{- define "muster.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
seccompProfile: { type: RuntimeDefault }
{{- end -}}
{{- define "muster.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "muster.natsUrl" -}}
{{- if .Values.nats.enabled -}}
tls://nats.{{ .Release.Namespace }}:4222
{{- else -}}
{{ required "nats.url is needed where nats.enabled is false" .Values.nats.url }}
{{- end -}}
{{- end -}}

{{- define "muster.natsVolume" -}}
{{ ternary "data-of-three" "data" (gt (int .Values.nats.replicas) 1) }}
{{- end -}}

{{/* Bytes of a Kubernetes quantity, or of a NATS size, where GB means Gi. */}}
{{- define "muster.bytes" -}}
{{- $text := toString . -}}
{{- $units := dict "" 1 "k" 1000 "K" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- range $letter, $power := dict "K" 1 "M" 2 "G" 3 "T" 4 -}}
{{- $bytes := 1 -}}
{{- range until $power }}{{ $bytes = mul $bytes 1024 }}{{ end -}}
{{- $_ := set $units (print $letter "i") $bytes -}}
{{- $_ := set $units (print $letter "B") $bytes -}}
{{- end -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- if not (hasKey $units $unit) }}{{ fail (printf "%q is not a size: use a number and one of Mi, Gi, Ti" $text) }}{{ end -}}
{{- printf "%.0f" (mulf (trimSuffix $unit $text | float64) (get $units $unit | float64)) -}}
{{- end -}}
