# Serves a disk over iSER (iSCSI on RDMA) with the distribution's target, and reads it with libiscsi's tools.
#
# Usage: iser.sh FOLDER     an empty one, for the disk and the target's socket
#
# In a network of its own: the target listens at the standard's port.
set -eu

folder=$1
name=iqn.2026-11.test:disk
initiator=iqn.2026-11.test:host
export TGT_IPC_SOCKET="$folder/socket"
PATH="$PATH:/usr/sbin:/sbin"

truncate -s 16M "$folder/disk"
tgtd -f > "$folder/log" 2>&1 &
target=$!
trap 'kill -9 $target; cat "$folder/log" >&2' EXIT

manage() {
    tgtadm --lld iser "$@"
}

# Until it answers, or has ended.
until manage --mode sys --op show > "$folder/system" 2>&1; do
    kill -0 $target
    sleep 0.05
done
manage --mode target --op new --tid 1 -T $name
manage --mode logicalunit --op new --tid 1 --lun 1 -b "$folder/disk"
manage --mode target --op bind --tid 1 -I ALL
manage --mode target --op bind --tid 1 -Q $initiator

url=iser://127.0.0.1:3260/$name/1
iscsi-inq -i $initiator $url
iscsi-readcapacity16 -i $initiator $url
iscsi-perf -i $initiator -m 8 -b 8 -t 1 $url
