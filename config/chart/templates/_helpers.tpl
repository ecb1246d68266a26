{{/* The name of the application. */}}
{{- define "caip-openstack.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the objects. 40 characters leave room for the longest suffix within the 63 of a label. */}}
{{- define "caip-openstack.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "caip-openstack.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Selects the pods of this release. Never change it: a Deployment's selector is immutable. */}}
{{- define "caip-openstack.selectorLabels" -}}
app.kubernetes.io/name: {{ include "caip-openstack.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: caip-openstack
{{- end -}}

{{/* The labels of every object. */}}
{{- define "caip-openstack.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/name" (include "caip-openstack.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "cluster.x-k8s.io/provider" "ipam-openstack" -}}
{{- merge $labels .Values.commonLabels | toYaml -}}
{{- end -}}

{{/* The common annotations plus others: (dict "root" . "more" ANNOTATIONS). Empty if there are none. */}}
{{- define "caip-openstack.annotations" -}}
{{- with merge (dict) (default (dict) .more) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The name of the ServiceAccount. */}}
{{- define "caip-openstack.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "caip-openstack.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The image, by digest if there is one. */}}
{{- define "caip-openstack.image" -}}
{{- with default .Values.image.registry .Values.global.imageRegistry -}}
{{- printf "%s/" . -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Checks that values.schema.json cannot express. */}}
{{- define "caip-openstack.check" -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.leaderElection) -}}
{{- fail "leaderElection: must be true with more than one replica, or set replicaCount to 1: two controllers that work at the same time would assign an address twice" -}}
{{- end -}}
{{- if and .Values.watchNamespace (has "*" .Values.clusterIdentities.secretNamespaces) -}}
{{- fail "clusterIdentities.secretNamespaces: name the namespaces with watchNamespace: the controller gets a Role in each" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not (and .Values.metrics.enabled .Values.metrics.service.enabled)) -}}
{{- fail "metrics.serviceMonitor.enabled: needs metrics.enabled and metrics.service.enabled, or use metrics.podMonitor" -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.podMonitor.enabled: needs metrics.enabled" -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled .Values.metrics.secure (not .Values.metrics.podMonitor.tokenSecret) -}}
{{- fail "metrics.podMonitor.tokenSecret: required if metrics.secure is true, because a PodMonitor cannot read a token from a file" -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled .Values.metrics.serviceMonitor.enabled -}}
{{- fail "metrics.podMonitor.enabled: enable this or metrics.serviceMonitor, not both: every sample would be scraped twice" -}}
{{- end -}}
{{- end -}}
