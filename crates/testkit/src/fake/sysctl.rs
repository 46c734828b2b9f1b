//! Settings below `/proc/sys/net`, as far as the objects know them.

use super::state::State;

impl State {
    /// Writes `net.ipv4.conf.SCOPE.promote_secondaries`, or one of `disable_ipv6`, `keep_addr_on_down`,
    /// `addr_gen_mode`, `accept_dad` and `router_solicitations` below `net.ipv6.conf.SCOPE`, or
    /// `net.ipv6.route.skip_notify_on_dev_down`. A scope is `all`, `default`, or a device; `router_solicitations` changes
    /// nothing here.
    ///
    /// # Errors
    ///
    /// The name, when there is no such setting, device or value.
    pub(crate) fn conf_setting(&mut self, name: &str, value: &str) -> Result<(), String> {
        let unknown = || format!("the fake kernel has no setting {name} = {value}");
        // With slashes between the parts a device's name may hold dots.
        let separator = if name.contains('/') { '/' } else { '.' };
        let parts: Vec<&str> = name.split(separator).collect();
        if let ["net", "ipv6", "route", "skip_notify_on_dev_down"] = parts[..] {
            self.routes6.goes_silently = value.trim().parse::<i32>().map_err(|_| unknown())? != 0;
            return Ok(());
        }
        let [net, family, conf, scope, setting] = parts[..] else {
            return Err(unknown());
        };
        let number: i32 = value.trim().parse().map_err(|_| unknown())?;
        let on = number > 0;
        let done = match (net, family, conf, setting) {
            ("net", "ipv4", "conf", "promote_secondaries") => {
                self.set_promote_secondaries(scope, number != 0)
            }
            ("net", "ipv6", "conf", "disable_ipv6") => self.disable_ipv6(scope, number != 0),
            ("net", "ipv6", "conf", "keep_addr_on_down") => self
                .settings6(scope)
                .map(|settings| settings.keep_addresses = on),
            ("net", "ipv6", "conf", "addr_gen_mode") if matches!(number, 0 | 1) => self
                .settings6(scope)
                .map(|settings| settings.no_link_local = on),
            ("net", "ipv6", "conf", "accept_dad") => self
                .settings6(scope)
                .map(|settings| settings.detect_duplicates = on),
            ("net", "ipv6", "conf", "router_solicitations") => self.settings6(scope).map(|_| ()),
            _ => None,
        };
        done.ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_known_by_name_device_and_value() {
        let mut state = State::new();
        assert!(state.sysctl("net.ipv6.conf.all.disable_ipv6", "1").is_ok());
        assert!(state.addresses6.of(1).is_empty(), "lo loses ::1");
        assert!(state.sysctl("net/ipv6/conf/lo/disable_ipv6", "0").is_ok());
        assert_eq!(state.addresses6.of(1).len(), 1);
        for (name, value) in [
            ("net.ipv6.conf.nosuch.disable_ipv6", "1"),
            ("net.ipv6.conf.lo.disable_ipv6", "x"),
            ("net.ipv6.conf.lo.addr_gen_mode", "7"),
            ("net.ipv6.conf.lo.forwarding", "1"),
            ("kernel.hostname", "a"),
        ] {
            assert!(state.sysctl(name, value).is_err(), "{name}");
        }
    }
}
