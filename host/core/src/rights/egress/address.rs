//! Classifies IP addresses as public, or as addresses that a plugin may reach only if a rule lists them.
//!
//! Based on IANA's special-purpose registries (RFC 6890 and its updates) and on the metadata addresses of clouds.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// `0.0.0.0/8` and `::`. Many systems deliver these to themselves.
    Unspecified,
    /// Loopback: this machine.
    Loopback,
    /// The local network segment of this machine.
    LinkLocal,
    /// RFC 1918, unique local IPv6, and the deprecated site-local range.
    Private,
    /// `100.64.0.0/10`, used by carriers and for the networks of some clusters.
    Shared,
    Multicast,
    /// Broadcast to a whole network.
    Broadcast,
    /// Reserved for examples in documentation.
    Documentation,
    /// Not assigned.
    Reserved,
    /// A cloud's metadata service, which hands out credentials.
    Metadata,
    ApiServer,
    /// The API server's address, on another port.
    ApiServerMachine,
    Own,
}

impl AddressClass {
    /// The class of `address`, judged by its number alone. `None` if it is public. Call this for each reading of an
    /// address: see [`check_address`](super::check_address).
    #[must_use]
    pub fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => of_ipv4(address),
            IpAddr::V6(address) => of_ipv6(address),
        }
    }

    /// Whether an address of this class must be listed by a rule for exactly this address. A rule for a whole network
    /// does not cover it.
    #[must_use]
    pub fn needs_exact(self) -> bool {
        matches!(self, Self::Metadata | Self::ApiServer)
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Private => "a private address",
            Self::Shared => "an address of the shared range",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::Documentation => "an address for documentation",
            Self::Reserved => "a reserved address",
            Self::Metadata => "the address of a cloud's metadata service",
            Self::ApiServer => "the address of the Kubernetes API server",
            Self::ApiServerMachine => "the address of the Kubernetes API server's machine",
            Self::Own => "an address of the host's own",
        })
    }
}

/// Converts an IPv4 address that is written as IPv6 (`::ffff:127.0.0.1`) to IPv4, because packets go there.
#[must_use]
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// `address` and the IPv4 addresses embedded in it, to which a router or tunnel may deliver.
pub(super) fn readings(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let inside = match address {
        IpAddr::V4(_) => [None, None],
        IpAddr::V6(address) => embedded(address),
    };
    std::iter::once(address).chain(inside.into_iter().flatten().map(IpAddr::V4))
}

fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let segments = address.segments();
    let ipv4 = |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match segments {
        // NAT64 (RFC 6052); IPv4-translated (RFC 2765); 6to4 (RFC 3056); ISATAP (RFC 5214), in any prefix.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x2002, high, low, ..]
        | [.., 0 | 0x200, 0x5efe, high, low] => [ipv4(high, low), None],
        // IPv4-compatible (RFC 4291, deprecated).
        [0, 0, 0, 0, 0, 0, high, low] if (high, low) > (0, 1) => [ipv4(high, low), None],
        // Teredo (RFC 4380): the server's address, and the client's with all bits inverted.
        [0x2001, 0, server_high, server_low, .., high, low] => [ipv4(server_high, server_low), ipv4(!high, !low)],
        _ => [None, None],
    }
}

fn of_ipv4(address: Ipv4Addr) -> Option<AddressClass> {
    // AWS and most others; AWS's containers; Azure; Alibaba; Oracle.
    const METADATA: [[u8; 4]; 5] =
        [[169, 254, 169, 254], [169, 254, 170, 2], [168, 63, 129, 16], [100, 100, 100, 200], [192, 0, 0, 192]];
    let octets = address.octets();
    Some(match octets {
        metadata if METADATA.contains(&metadata) => AddressClass::Metadata,
        [0, ..] => AddressClass::Unspecified,
        [127, ..] => AddressClass::Loopback,
        [169, 254, ..] => AddressClass::LinkLocal,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::Shared,
        [224..=239, ..] => AddressClass::Multicast,
        [255, 255, 255, 255] => AddressClass::Broadcast,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Documentation,
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [240..=255, ..] => AddressClass::Reserved,
        _ => return None,
    })
}

fn of_ipv6(address: Ipv6Addr) -> Option<AddressClass> {
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        // AWS, and Google.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => AddressClass::Metadata,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => AddressClass::Private,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressClass::Documentation,
        // Protocol assignments: Teredo, benchmarking, and identifiers that are not addresses.
        [0x2001, 0..=0x1ff, ..] => AddressClass::Reserved,
        // The embedded address decides.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x2000..=0x3fff, ..] => return None,
        // Everything that is not global unicast.
        _ => AddressClass::Reserved,
    })
}
