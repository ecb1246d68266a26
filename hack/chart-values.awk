# Prints the file that is named last with the table of the chart's values between its two marks:
#   awk -f hack/chart-values.awk config/chart/values.yaml docs/install.md
# A value is a key below a comment; a key without one is a group of values, and must not have a value itself.

function fail(what) { print "error: config/chart/values.yaml: " what > "/dev/stderr"; failed = 1; exit 1 }

FNR == 1 { file++ }

file == 1 && /^ *$/ { text = ""; next }
file == 1 && /^ *# / { sub(/^ *# /, ""); text = text (text == "" ? "" : " ") $0; next }
file == 1 {
  match($0, /^ */)
  depth = RLENGTH / 2
  if (inside && depth > leaf) { text = ""; next }
  inside = 0
  if (!match($0, /^ *[A-Za-z]+:/)) fail("line " FNR " is not a key")
  key = substr($0, 1, RLENGTH - 1); gsub(/ /, "", key)
  value = substr($0, RLENGTH + 2)
  path[depth] = key
  name = path[0]
  for (i = 1; i <= depth; i++) name = name "." path[i]
  if (text == "" && value != "") fail(name " has no comment above it")
  if (text != "") {
    if (value == "") { inside = 1; leaf = depth }
    rows = rows "| `" name "` | " (value == "" ? "in values.yaml" : "`" value "`") " | " text " |\n"
  }
  text = ""
  next
}

/<!-- values: end -->/ { skip = 0; ends = 1 }
!skip { print }
/<!-- values: begin -->/ { print "| value | default | |\n|---|---|---|"; printf "%s", rows; skip = 1 }

END { if (!failed && !ends) { print "error: " FILENAME " has no marks for the values" > "/dev/stderr"; exit 1 } }
