#!/bin/sh
# Looks at the unit of docs/examples/trueup.service as it runs. Each check is a line as of a test.
exec < /dev/null > /dev/ttyS1 2>&1
passed=0
failed=0
echo "@vm start service/systemd"
check() {
    name=$1
    shift
    if (set -e; "$@"); then
        passed=$((passed + 1))
        echo "test $name ... ok"
    else
        failed=$((failed + 1))
        echo "test $name ... FAILED"
    fi
}
# Waits for a condition, for five minutes at most: an emulated processor is slow.
until_true() {
    for _ in $(seq 600); do
        if "$@" 2> /dev/null; then return 0; fi
        sleep 0.5
    done
    echo "never true: $*"
    return 1
}
is_active() { [ "$(systemctl is-active trueup)" = active ]; }
has_route() { ip route show proto 116 | grep -q '^10.9.0.0/16 dev edge0'; }
has_alias() { ip -details link show edge0 | grep -q 'alias by-command'; }
state() { cat /run/trueup/"$1"; }
says() { systemctl show trueup -p StatusText | grep -q "$1"; }

starts() { until_true is_active; says converged; }
network() { has_route; [ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ]; }
repairs() { ip route del 10.9.0.0/16; until_true has_route; }
writes_files() {
    [ "$(state edge.conf)" = 'route 10.9.0.0/16' ]
    [ "$(stat -c %a /run/trueup/edge.conf)" = 640 ]
    # The unit's own user.
    [ "$(stat -c %u /run/trueup/edge.conf)" -ge 61184 ]
}
runs_commands() {
    until_true test -e /run/trueup/environment
    grep -q '^CapEff:.0000000000000000$' /run/trueup/capabilities
    grep -q '^CapAmb:.0000000000000000$' /run/trueup/capabilities
    ! grep -qE '^(NOTIFY_SOCKET|WATCHDOG_|LISTEN_|INVOCATION_ID|JOURNAL_STREAM)' /run/trueup/environment
}
gives_what_is_asked_for() { until_true has_alias; }
sees_a_changed_file() {
    sed -i 's/10\.9\.0\.0\/16/10.8.0.0\/16/' /etc/trueup/net.toml
    until_true grep -q 10.8.0.0/16 /run/trueup/edge.conf
    ! has_route
    sed -i 's/10\.8\.0\.0\/16/10.9.0.0\/16/' /etc/trueup/net.toml
    systemctl reload trueup
    until_true has_route
}
remembers() {
    systemctl restart trueup
    until_true is_active
    sed -i '/^\[\[link]]/,/^$/d' /etc/trueup/net.toml
    sed -i '/^\[\[route]]/,/^$/d' /etc/trueup/net.toml
    sed -i '/^\[\[exec]]/,/^$/d' /etc/trueup/net.toml
    printf 'link = []\nroute = []\n' | cat - /etc/trueup/net.toml > /etc/trueup/new
    mv /etc/trueup/new /etc/trueup/net.toml
    # The link is known as ours by the journal alone.
    until_true sh -c '! ip link show edge0'
}
refuses_a_file_that_others_write() {
    chmod 0666 /etc/trueup/net.toml
    systemctl stop trueup
    systemctl start trueup && return 1
    journal_says_so=$(systemctl show trueup -p Result)
    echo "$journal_says_so"
    chmod 0644 /etc/trueup/net.toml
    systemctl reset-failed trueup
    systemctl start trueup
    until_true is_active
}
is_confined() {
    pid=$(systemctl show trueup -p MainPID --value)
    grep -q '^CapEff:.0000000000001000$' "/proc/$pid/status"
    grep -q '^NoNewPrivs:.1$' "/proc/$pid/status"
    grep -q '^Seccomp:.2$' "/proc/$pid/status"
    [ "$(stat -c %u "/proc/$pid")" -ge 61184 ]
}

check the_unit_starts_and_says_that_it_converged starts
check the_network_and_the_settings_are_as_declared network
check a_removed_route_is_restored repairs
check a_file_is_written_as_the_units_own_user writes_files
check commands_run_without_privileges_and_without_the_managers_variables runs_commands
check a_command_with_ambient_may_change_the_network gives_what_is_asked_for
check the_process_has_one_capability_and_a_filter_of_system_calls is_confined
check a_changed_file_is_taken sees_a_changed_file
check what_was_made_before_a_restart_is_removed_after_it remembers
check a_declared_state_that_others_can_write_is_refused refuses_a_file_that_others_write
if [ $failed != 0 ]; then
    echo "failures:"
    systemctl status trueup --no-pager --full
    dmesg | grep -iE 'trueup|audit' | tail -n 40
    cat /run/trueup/capabilities /run/trueup/environment
fi
echo "test result: ok. $passed passed; $failed failed; 0 ignored"
echo "@vm end service/systemd $failed"
echo "@vm done"
systemctl poweroff --force --force
