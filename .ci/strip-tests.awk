# Drops every item under #[cfg(test)] or #[cfg(all(test, …))] from a file that rustfmt has formatted.

function indent_of(line) { match(line, /^ */); return RLENGTH }

# Looking for the item that the attribute belongs to.
state == "item" {
    if ($0 ~ /^ *#\[/ || $0 ~ /^ *\/\//) next
    if (indent_of($0) == depth && $0 ~ /[;}]$/) { state = ""; next }
    state = "body"
    next
}
# In it, until a line of the same depth closes it.
state == "body" {
    if (indent_of($0) == depth && $0 ~ /^ *[})\]]*[;,]?$/ && $0 !~ /^ *$/) state = ""
    next
}
/^ *#\[cfg\((all\()?test[,)]/ { state = "item"; depth = indent_of($0); next }
{ print }
