# Writes the `sh` and `yaml` blocks of a page into files FOLDER/LINE.sh and FOLDER/LINE.yaml, where LINE is the line of the
# page on which the block begins:  awk -v folder=FOLDER [-v heading='## Install'] -f page.awk PAGE
# With a heading, only those of its section. Prints the names of the files, in order.
/^```/ && !fenced {
  fenced = 1
  file = ""
  if (inside && ($0 == "```sh" || $0 == "```yaml")) {
    file = sprintf("%s/%04d.%s", folder, NR + 1, substr($0, 4))
    print file
  }
  next
}
/^```/ { fenced = 0; close(file); next }
fenced && file != "" { print > file }
!fenced && /^## / { inside = heading == "" || $0 == heading }
BEGIN { inside = heading == "" }
