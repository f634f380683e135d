# What the model `devices` was trained on, laid out as in training: sourced by models/make.sh and
# bench/evaluation/classify/strangers.sh, so that captures have the names by which families are sealed.

# lay_out_devices PLACE FOREIGN: in PLACE, where `data` has a folder of captures for each device, links
# the captures of the folder FOREIGN that recipes/devices-foreign.txt lists, and writes devices.tsv.
lay_out_devices() {
  local place=$1 foreign=$2 list name file
  list=$(dirname "${BASH_SOURCE[0]}")/recipes/devices-foreign.txt
  mkdir "$place/foreign"
  while read -r name; do
    [ -f "$foreign/$name" ] || {
      echo "$foreign/$name: no such file; wanted: all that models/recipes/devices-foreign.txt lists" >&2
      return 2
    }
    ln -s "$foreign/$name" "$place/foreign/$name"
  done < "$list"
  {
    printf 'file\tlabel\n'
    (cd "$place" && ls -- data/*/*.pcap) | while read -r file; do
      printf '%s\t%s\n' "$file" "$(basename "$(dirname "$file")")"
    done
    (cd "$place" && ls -- foreign/*) | sed 's/$/\tforeign/'
  } > "$place/devices.tsv"
}
