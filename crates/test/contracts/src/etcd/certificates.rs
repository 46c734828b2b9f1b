//! Certificates for members and clients.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use etcd_client::{Certificate, Identity, TlsOptions};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use trueup_etcd::Config;

use super::{Place, write_secret};

/// A certificate authority for tests, with its secret key in memory.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// The two files that a server or a client needs to prove its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The path of the certificate, in PEM.
    pub certificate: PathBuf,
    /// The path of its private key, in PEM.
    pub key: PathBuf,
}

impl Authority {
    /// Makes an authority and writes its certificate to `NAME.pem` in `folder`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn new(folder: &Path, name: &str) -> io::Result<Authority> {
        let mut params = params(name, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let file = folder.join(format!("{name}.pem"));
        fs::write(&file, certificate.pem())?;
        Ok(Authority { folder: folder.to_owned(), file, issuer: Issuer::new(params, key) })
    }

    /// Returns the path of its certificate.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn files(&self, name: &str) -> CertificateFiles {
        CertificateFiles {
            certificate: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        }
    }

    /// Issues a certificate, for a server at these addresses or for a client with that name. It
    /// replaces the files `NAME.pem` and `NAME.key`.
    ///
    /// # Errors
    ///
    /// If the files cannot be written.
    pub fn issue(&self, name: &str, addresses: &[IpAddr]) -> io::Result<CertificateFiles> {
        let mut params = params(name, addresses)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer);
        let certificate = certificate.map_err(io::Error::other)?;
        let files = self.files(name);
        // Write elsewhere and rename, as the files may be in use.
        for (file, text) in
            [(&files.certificate, certificate.pem()), (&files.key, key.serialize_pem())]
        {
            let new = file.with_extension("new");
            write_secret(&new, &text)?;
            fs::rename(&new, file)?;
        }
        Ok(files)
    }
}

/// The certificates of a cluster's members and their clients. A renewal writes the same files.
#[derive(Debug)]
pub(super) struct Certificates {
    authority: Authority,
    /// The members' addresses, and localhost.
    addresses: Vec<IpAddr>,
}

impl Certificates {
    pub(super) fn new(folder: &Path, places: &[Place]) -> io::Result<Certificates> {
        let mut addresses: Vec<_> = places.iter().map(|place| place.address).collect();
        // For clients behind a proxy on their own host.
        addresses.push(Ipv4Addr::LOCALHOST.into());
        let authority = Authority::new(folder, "ca")?;
        let certificates = Certificates { authority, addresses };
        certificates.issue()?;
        Ok(certificates)
    }

    /// Issues all certificates again, except the authority's own.
    pub(super) fn issue(&self) -> io::Result<()> {
        self.authority.issue("server", &self.addresses)?;
        self.authority.issue("client", &[]).map(drop)
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the members' TLS arguments.
    pub(super) fn arguments(&self) -> [String; 4] {
        let server = self.authority.files("server");
        [
            "--client-cert-auth".to_owned(),
            format!("--trusted-ca-file={}", self.authority.file().display()),
            format!("--cert-file={}", server.certificate.display()),
            format!("--key-file={}", server.key.display()),
        ]
    }

    pub(super) fn client_config(&self, config: Config) -> Config {
        let client = self.authority.files("client");
        let config = config.with_ca_file(self.authority.file());
        config.with_cert_files(client.certificate, client.key)
    }

    /// Returns the TLS options of a client of etcd's own protocol.
    pub(super) fn client_options(&self) -> io::Result<TlsOptions> {
        let client = self.authority.files("client");
        let identity = Identity::from_pem(fs::read(client.certificate)?, fs::read(client.key)?);
        let authority = Certificate::from_pem(fs::read(self.authority.file())?);
        Ok(TlsOptions::new().ca_certificate(authority).identity(identity))
    }
}

fn params(name: &str, addresses: &[IpAddr]) -> io::Result<CertificateParams> {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(addresses).map_err(io::Error::other)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
