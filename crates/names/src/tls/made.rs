//! Hellos that tests put together.

/// What a hello is to hold. The default is one of Chrome's of 2022, with GREASE: the worked
/// example of the JA4 specification.
#[derive(Clone, Debug)]
pub(crate) struct HelloSpec {
    pub version: u16,
    pub cipher_suites: Vec<u16>,
    pub extensions: Vec<(u16, Vec<u8>)>,
}

/// A vector of 16-bit values, behind a length of two bytes.
pub(crate) fn list(values: &[u16]) -> Vec<u8> {
    vector(&values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<_>>())
}

/// Bytes behind a length of two bytes.
pub(crate) fn vector(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

/// The extension that names a server.
pub(crate) fn server_name(name: &[u8]) -> Vec<u8> {
    vector(&[&[0], &vector(name)[..]].concat())
}

/// The extension of application protocols.
pub(crate) fn alpn(protocols: &[&[u8]]) -> Vec<u8> {
    let entry = |protocol: &&[u8]| [&[u8::try_from(protocol.len()).unwrap()], *protocol].concat();
    vector(&protocols.iter().flat_map(entry).collect::<Vec<_>>())
}

/// The extension of versions.
pub(crate) fn versions(versions: &[u16]) -> Vec<u8> {
    let mut bytes = list(versions);
    bytes.remove(0);
    bytes
}

impl Default for HelloSpec {
    fn default() -> Self {
        let cipher_suites = vec![
            0x2a2a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013,
            0xc014, 0x009c, 0x009d, 0x002f, 0x0035,
        ];
        let algorithms = [0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601];
        let kinds = [
            0xdada, 0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023,
            0x0012, 0x002b, 0xff01, 0x000b, 0x000a, 0x0015, 0x4a4a,
        ];
        let data = |kind| match kind {
            0x0000 => server_name(b"example.com"),
            0x000d => list(&algorithms),
            0x0010 => alpn(&[b"h2", b"http/1.1"]),
            0x002b => versions(&[0x6a6a, 0x0304, 0x0303]),
            _ => vec![7; 3],
        };
        let extensions = kinds.map(|kind| (kind, data(kind))).to_vec();
        Self { version: 0x0303, cipher_suites, extensions }
    }
}

impl HelloSpec {
    /// The same with other data in an extension, or with none.
    pub(crate) fn with(mut self, kind: u16, data: Option<Vec<u8>>) -> Self {
        self.extensions.retain(|(other, _)| *other != kind);
        self.extensions.extend(data.map(|data| (kind, data)));
        self
    }

    /// The handshake message.
    pub(crate) fn message(&self) -> Vec<u8> {
        let mut body = self.version.to_be_bytes().to_vec();
        body.extend([9; 32]);
        body.extend([2, 5, 5]);
        body.extend(list(&self.cipher_suites));
        body.extend([1, 0]);
        let extension =
            |(kind, data): &(u16, Vec<u8>)| [&kind.to_be_bytes()[..], &vector(data)].concat();
        if !self.extensions.is_empty() {
            body.extend(vector(&self.extensions.iter().flat_map(extension).collect::<Vec<_>>()));
        }
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1], &len[1..], &body].concat()
    }
}
