//! The desired state that the operator declares.

use std::fmt::Write as _;
use std::path::Path;

use fastrand::Rng;

/// A random declared state. Any two versions have different texts.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) version: u32,
    /// The last byte of a route's gateway.
    pub(crate) gateway: u8,
    pub(crate) has_second_pair: bool,
    pub(crate) has_blackhole: bool,
    pub(crate) has_second_rule: bool,
    pub(crate) has_extra_file: bool,
    pub(crate) rp_filter: u8,
    pub(crate) proxy_arp: u8,
    /// A number that is part of the sections' names.
    name: u8,
    /// A seed for the sections' order.
    order: u64,
}

impl Declared {
    pub(crate) fn random(version: u32, rng: &mut Rng) -> Declared {
        Declared {
            version,
            gateway: rng.u8(2..6),
            has_second_pair: rng.bool(),
            has_blackhole: rng.bool(),
            has_second_rule: rng.bool(),
            has_extra_file: rng.bool(),
            rp_filter: rng.u8(0..3),
            proxy_arp: rng.u8(0..2),
            name: rng.u8(0..4),
            order: rng.u64(..),
        }
    }

    /// Returns the words that differ between versions.
    pub(crate) fn word(&self) -> String {
        format!("version-{};", self.version)
    }

    /// Returns the text of the file. `root` is the site's directory.
    pub(crate) fn text(&self, root: &Path) -> String {
        let (word, name, root) = (self.word(), self.name, root.display());
        let mut sections = vec![
            format!(
                "[sysctl]\n\
                 \"net.ipv4.ip_forward\" = 1\n\
                 \"net.ipv4.conf.all.rp_filter\" = {}\n\
                 \"net.ipv4.conf.obr.proxy_arp\" = {}\n",
                self.rp_filter, self.proxy_arp
            ),
            "[[link]]\nname = \"obr\"\nkind = \"bridge\"\nup = true\n".to_owned(),
            pair("oa", "ob", ""),
            pair("ob", "oa", "master = \"obr\"\n"),
            address("10.66.0.1/24", "obr", ""),
            address("fd00:66::1/64", "obr", "nodad = true\n"),
            address("10.67.0.1/24", "oa", ""),
            format!("[[route]]\ndst = \"10.99.1.0/24\"\nvia = \"10.66.0.{}\"\n", self.gateway),
            "[[route]]\ndst = \"fd00:99::/64\"\nvia = \"fd00:66::2\"\n".to_owned(),
            rule(6666, "to = \"10.66.0.0/16\"\ntable = 66\n"),
            file(
                &format!("conf{name}"),
                &format!("{root}/files/etc/conf"),
                &format!("content = \"{word}\\n\"\n"),
            ),
            file(
                &format!("deep{name}"),
                &format!("{root}/files/deep/a/b/conf"),
                "content = \"deep\\n\"\nmode = \"0640\"\n",
            ),
            file(
                &format!("copy{name}"),
                &format!("{root}/files/plain/copy"),
                &format!("source = \"{root}/files/vol/key\"\n"),
            ),
            format!(
                "[[exec]]\nname = \"reload{name}\"\n\
                 command = [\"/bin/sh\", \"-c\", \"echo '{word}' >> {root}/log\"]\n\
                 on = [\"file.conf{name}\"]\nafter = [\"route\"]\n"
            ),
            format!(
                "[[exec]]\nname = \"make\"\ncommand = [\"/bin/sh\", \"-c\", \"touch {root}/made\"]\n\
                 check = [\"/bin/sh\", \"-c\", \"test -e {root}/made\"]\n"
            ),
        ];
        if self.has_second_pair {
            sections.push(pair("oc", "od", ""));
            sections.push(pair("od", "oc", ""));
            sections.push(address("10.68.0.1/24", "oc", ""));
            sections.push("[[route]]\ndst = \"10.99.3.0/24\"\nvia = \"10.68.0.2\"\n".to_owned());
        }
        if self.has_blackhole {
            sections.push("[[route]]\ndst = \"10.99.2.0/24\"\ntype = \"blackhole\"\n".to_owned());
        }
        if self.has_second_rule {
            sections.push(rule(6667, "from = \"fd00:66::/64\"\ntable = 67\n"));
        }
        if self.has_extra_file {
            let path = format!("{root}/files/plain/extra");
            sections.push(file(&format!("extra{name}"), &path, "content = \"extra\\n\"\n"));
        }
        Rng::with_seed(self.order).shuffle(&mut sections);
        let mut text = format!("# {word}\ngrace = 0.5\n");
        for section in sections {
            let _infallible = write!(text, "\n{section}");
        }
        text
    }
}

fn pair(name: &str, peer: &str, more: &str) -> String {
    format!("[[link]]\nname = \"{name}\"\nkind = \"veth\"\npeer = \"{peer}\"\nup = true\n{more}")
}

fn address(address: &str, dev: &str, more: &str) -> String {
    format!("[[address]]\naddress = \"{address}\"\ndev = \"{dev}\"\n{more}")
}

fn rule(priority: u32, more: &str) -> String {
    format!("[[rule]]\npriority = {priority}\n{more}")
}

fn file(name: &str, path: &str, more: &str) -> String {
    format!("[[file]]\nname = \"{name}\"\npath = \"{path}\"\n{more}")
}
