//! SSRF protection: URLs among inputs may lead to the public internet only, not to this machine or its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Host;

/// Networks that are not the public internet: this host, private use, shared, link-local, protocol
/// assignments, documentation, relays, benchmarks, multicast, reserved.
const CLOSED_V4: [(Ipv4Addr, u32); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Agent of the host of an Azure virtual machine.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 31, 196, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Parts of the global unicast space that lead elsewhere: documentation, and tunnels that carry IPv4 (Teredo, 6to4).
const CLOSED_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Returns true if an address belongs to the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let within = |(network, bits): &(Ipv4Addr, u32)| {
                (address.to_bits() ^ network.to_bits()).checked_shr(32 - bits) == Some(0)
            };
            !CLOSED_V4.iter().any(within)
        }
        IpAddr::V6(address) => {
            let within = |(network, bits): &(Ipv6Addr, u32)| {
                (address.to_bits() ^ network.to_bits()).checked_shr(128 - bits) == Some(0)
            };
            // Only 2000::/3 is global unicast; the rest is loopback, link-local, local, multicast, and IPv4 as IPv6.
            address.segments()[0] >> 13 == 1 && !CLOSED_V6.iter().any(within)
        }
    }
}

/// Returns true if an address is this machine's, on any network: a firewall does not filter the machine's own packets.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // `connect` on a UDP socket sends nothing: the system only chooses the source address.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    chosen.is_ok_and(|chosen| chosen.ip() == address)
}

fn is_allowed(address: IpAddr) -> bool {
    is_public(address) && !is_own(address)
}

/// Returns the reason to refuse a URL, if any. The resolver checks host names again at each connection.
pub(super) fn refusal(url: &Url) -> Option<String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Some(format!("{} is no scheme that is fetched; use http or https", url.scheme()));
    }
    let address = match url.host()? {
        Host::Ipv4(address) => IpAddr::V4(address),
        Host::Ipv6(address) => IpAddr::V6(address),
        Host::Domain(_) => return None,
    };
    (!is_allowed(address)).then(|| format!("{address} is not an address of the public internet"))
}

/// Resolves names to public addresses only; the connection uses these, so DNS rebinding cannot bypass the check.
pub(super) struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(only_public(name.as_str(), found)?) as Addrs)
        })
    }
}

pub(super) fn only_public(
    name: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<std::vec::IntoIter<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
    let public: Vec<_> = found.filter(|address| is_allowed(address.ip())).collect();
    if public.is_empty() {
        return Err(format!("{name} is no host of the public internet").into());
    }
    Ok(public.into_iter())
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_of_a_closed_address_is_fetched() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "0x7f.1",
            "127.0.0.1.",
            "0",
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "169.254.169.254",
            "0xa9fea9fe",
            "2852039166",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "１２７.0.0.1",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[::ffff:8.8.8.8]",
            "[fe80::1]",
            "[fc00::1]",
            "[fd12:3456::1]",
            "[ff02::1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[2001:0:7f00:1::]",
            "[2001:db8::1]",
        ] {
            for url in [format!("http://{host}/x"), format!("https://{host}:8787/x")] {
                let url = Url::parse(&url).expect(host);
                assert!(refusal(&url).is_some(), "{url} would be fetched");
            }
        }
        for other in ["file:///etc/passwd", "ftp://example.com/x", "data:image/png;base64,AA=="] {
            assert!(refusal(&Url::parse(other).expect(other)).is_some(), "{other} would be fetched");
        }
    }

    #[test]
    fn an_address_of_this_machine_is_recognized() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(8, 8, 8, 8).into()));
    }

    #[test]
    fn public_addresses_are_fetched() {
        for host in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "[2606:4700::1111]", "example.com"] {
            assert_eq!(refusal(&Url::parse(&format!("https://{host}/")).expect(host)), None, "{host}");
        }
    }

    #[test]
    fn a_name_counts_by_the_addresses_that_are_connected_to() {
        let address = |text: &str| SocketAddr::new(text.parse().expect(text), 443);
        let mixed = [address("127.0.0.1"), address("8.8.8.8"), address("::1")];
        let left: Vec<_> = only_public("mixed.example", mixed.into_iter()).expect("one is public").collect();
        assert_eq!(left, [address("8.8.8.8")]);
        assert!(only_public("inside.example", [address("192.168.0.1")].into_iter()).is_err());
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn whatever_the_standard_library_knows_as_closed_is_closed(bits in any::<u32>(), first in any::<u8>()) {
                for address in [Ipv4Addr::from_bits(bits), Ipv4Addr::from_bits(bits >> 8 | u32::from(first) << 24)] {
                    let is_closed = address.is_private()
                        || address.is_loopback()
                        || address.is_link_local()
                        || address.is_multicast()
                        || address.is_broadcast()
                        || address.is_documentation()
                        || address.is_unspecified();
                    prop_assert!(!(is_closed && is_public(address.into())), "{address}");
                    // An IPv4 address stays closed when it is written as IPv6.
                    for inside in [address.to_ipv6_mapped(), address.to_ipv6_compatible()] {
                        prop_assert!(!is_public(inside.into()), "{inside}");
                    }
                }
            }

            #[test]
            fn an_address_counts_the_same_in_every_spelling_of_a_url(bits in any::<u32>()) {
                let address = Ipv4Addr::from_bits(bits);
                let [a, b, c, d] = address.octets();
                let (rest, low) = (bits & 0xff_ffff, bits & 0xffff);
                for host in [
                    format!("{address}"), format!("{bits}"), format!("{bits:#x}"), format!("0{bits:o}"),
                    format!("{a}.{rest}"), format!("{a}.{b}.{low}"), format!("{a:#x}.{b}.0{c:o}.{d}"), format!("{address}."),
                ] {
                    let url = Url::parse(&format!("http://{host}/")).expect("it is the address of a host");
                    prop_assert_eq!(refusal(&url).is_none(), is_public(address.into()), "{}", host);
                }
            }
        }
    }
}
