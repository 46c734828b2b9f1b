#!/bin/busybox sh
# The first process: puts the tree on a tmpfs, which systemd can make namespaces of, and starts systemd.
/bin/busybox mkdir -p /proc /sys /dev /new
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
exec < /dev/null > /dev/ttyS1 2>&1
/bin/busybox stty raw < /dev/ttyS1
echo "@vm kernel $(/bin/busybox uname -r)"
while read -r module; do /bin/busybox insmod "$module" || echo "@vm broken insmod $module"; done < /modules
/bin/busybox mount -t tmpfs -o mode=0755 root /new
for part in /bin /etc /lib /lib64 /sbin /usr /var; do /bin/busybox cp -a $part /new/; done
/bin/busybox mkdir -p /new/proc /new/sys /new/dev /new/run /new/root
/bin/busybox mkdir -m 1777 /new/tmp /new/var/tmp
for mounted in proc sys dev; do /bin/busybox mount -o move /$mounted /new/$mounted; done
exec /bin/busybox switch_root /new /lib/systemd/systemd --log-level=warning --log-target=kmsg --show-status=no
