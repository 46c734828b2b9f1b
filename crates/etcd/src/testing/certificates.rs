//! Certificates for members and clients.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority of a test.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Authority {
    /// Makes an authority, with its certificate in `folder`, in the file `NAME.pem`.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn new(folder: &Path, name: &str) -> io::Result<Authority> {
        let mut params = params(name, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let file = folder.join(format!("{name}.pem"));
        fs::write(&file, certificate.pem())?;
        Ok(Authority {
            folder: folder.to_owned(),
            file,
            issuer: Issuer::new(params, key),
        })
    }

    /// Returns the file of its certificate.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Issues a certificate, for a server at these addresses or for a client of that name, in the
    /// files `NAME.pem` and `NAME.key`; what they held is replaced.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub fn issue(&self, name: &str, addresses: &[IpAddr]) -> io::Result<CertificateFiles> {
        let mut params = params(name, addresses)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer);
        let certificate = certificate.map_err(io::Error::other)?;
        let files = CertificateFiles {
            certificate: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        };
        fs::write(&files.certificate, certificate.pem())?;
        fs::write(&files.key, key.serialize_pem())?;
        Ok(files)
    }
}

fn params(name: &str, addresses: &[IpAddr]) -> io::Result<CertificateParams> {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(addresses).map_err(io::Error::other)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
