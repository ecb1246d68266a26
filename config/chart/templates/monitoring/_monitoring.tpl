{{/* What takes the excluded pools out of an expression. */}}
{{- define "caip-openstack.monitoring.excluded" -}}
{{- $pools := list -}}
{{- range .Values.monitoring.prometheusRule.excludePools -}}
{{- $matchers := printf "pool=%q" (base .) -}}
{{- if contains "/" . -}}
{{- $matchers = printf "namespace=%q,%s" (dir .) $matchers -}}
{{- end -}}
{{- $pools = append $pools (printf "caip_openstack_pool_size{%s}" $matchers) -}}
{{- end -}}
{{- if $pools -}}
unless on (namespace, pool) ({{ join " or " $pools }})
{{- end -}}
{{- end -}}

{{/* One rule: (dict "root" . "it" ENTRY_OF_FILES_ALERTS "values" ITS_VALUES "threshold" NUMBER "severity" NAME). */}}
{{- define "caip-openstack.monitoring.rule" -}}
{{- $rule := .root.Values.monitoring.prometheusRule -}}
{{- $expr := .it.expr | replace "<selector>" $rule.selector | replace "<threshold>" (toString .threshold)
  | replace "<excluded>" (include "caip-openstack.monitoring.excluded" .root) | trim -}}
{{- $runbook := dict "runbook" (printf "docs/runbooks/%s.md" .it.alert) -}}
{{- with $rule.runbookURL -}}
{{- $runbook = dict "runbook_url" (printf "%s/%s.md" (trimSuffix "/" .) $.it.alert) -}}
{{- end -}}
{{- dict
  "alert" .it.alert
  "expr" $expr
  "for" (get .values "for")
  "labels" (merge (dict "severity" .severity) $rule.alertLabels)
  "annotations" (merge (dict "summary" .it.summary "description" .it.description) $runbook)
  | toYaml -}}
{{- end -}}

{{/* The rules as a list: those that are switched on, one for each level where there are several. */}}
{{- define "caip-openstack.monitoring.rules" -}}
{{- $all := .Files.Get "files/alerts.yaml" | fromYaml -}}
{{- range $name, $values := .Values.monitoring.prometheusRule.alerts -}}
{{- $it := get $all $name -}}
{{- if $values.enabled -}}
{{- range $severity, $threshold := $values.levels | default (dict $values.severity (default 0 $values.threshold)) }}
- {{ include "caip-openstack.monitoring.rule" (dict
    "root" $ "it" $it "values" $values "severity" $severity "threshold" $threshold) | nindent 2 | trim }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
