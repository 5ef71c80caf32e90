//! Where results go: standard output, and the files that the user named.

use crate::HostError;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Prints to standard output. A reader that has gone away, as `head` does, has seen enough: that is
/// not a failure.
///
/// # Errors
/// Any other error that prevents the output.
pub fn print(text: &str) -> Result<(), HostError> {
    print_to(io::stdout().lock(), text)
}

fn print_to(mut out: impl Write, text: &str) -> Result<(), HostError> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(HostError::system("write to standard output")),
    }
}

/// Whether results for this file go to standard output: then nothing else is printed there.
pub fn is_standard_output(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// Writes a report to a file, or to standard output for the file `-`.
///
/// # Errors
/// [`HostError::Step`] if it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), HostError> {
    if is_standard_output(Some(path)) {
        return print(&format!("{text}\n"));
    }
    std::fs::write(path, text).map_err(HostError::at("write", path))
}

/// Refuses files that cannot be written, before the runs whose results they are for.
///
/// # Errors
/// [`HostError::Step`] for the first such file.
pub fn expect_writable(files: &[Option<&Path>]) -> Result<(), HostError> {
    let files = files.iter().filter(|path| !is_standard_output(**path));
    for path in files.copied().flatten() {
        let known = path.metadata();
        // Opening a pipe would wait for its reader.
        if known.as_ref().is_ok_and(|it| !it.is_file() && !it.is_dir()) {
            continue;
        }
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(HostError::at("write", path))?;
        if known.is_err() {
            // The results do not exist yet; if the runs fail, no empty file is left. If the path is
            // a link, its target is the file that was made.
            let made = path.canonicalize().and_then(std::fs::remove_file);
            made.map_err(HostError::at("write", path))?;
        }
    }
    Ok(())
}

/// Refuses one file for two results, which `options` name: the second would overwrite the first.
///
/// # Errors
/// The problem with the call.
pub fn expect_different_files(options: &[(&str, Option<&Path>)]) -> Result<(), String> {
    let whole = |path: &Path| {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        match (path.canonicalize(), folder, path.file_name()) {
            (Ok(path), _, _) => path,
            (_, Ok(folder), Some(name)) => folder.join(name),
            _ => path.to_owned(),
        }
    };
    let named = options
        .iter()
        .filter_map(|(option, path)| Some((option, (*path)?)));
    let named: Vec<_> = named
        .map(|(option, path)| (option, path, whole(path)))
        .collect();
    for (at, (second, path, file)) in named.iter().enumerate() {
        if let Some((first, ..)) = named[..at].iter().find(|(.., other)| other == file) {
            return Err(format!(
                "{first} and {second} both name {}; give two files",
                path.display()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_not_a_failure_but_a_full_disk_is() {
        assert!(print_to(Broken(io::ErrorKind::BrokenPipe), "text").is_ok());
        let error = print_to(Broken(io::ErrorKind::StorageFull), "text").unwrap_err();
        assert!(error.to_string().contains("standard output"), "{error}");
        let mut printed = Vec::new();
        print_to(&mut printed, "text").unwrap();
        assert_eq!(printed, b"text");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_reported_and_one_that_can_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        std::fs::write(&old, "before").unwrap();
        expect_writable(&[Some(&old), Some(&new), None]).unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "before");
        assert!(!new.exists());
        let nowhere = folder.path().join("nowhere/file");
        let error = expect_writable(&[Some(&nowhere)]).unwrap_err().to_string();
        assert!(error.contains("nowhere/file"), "{error}");
        assert!(expect_writable(&[Some(folder.path())]).is_err());
    }

    #[test]
    fn a_file_called_minus_is_standard_output_and_is_not_made() {
        let minus = Path::new("-");
        expect_writable(&[Some(minus)]).unwrap();
        write(minus, "{}").unwrap();
        assert!(!minus.exists());
        assert!(!is_standard_output(Some(Path::new("./-"))) && !is_standard_output(None));
    }

    #[test]
    fn a_link_to_nothing_stays_and_its_target_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::os::unix::fs::symlink("target", &link).unwrap();
        expect_writable(&[Some(&link)]).unwrap();
        assert!(link.is_symlink() && !target.exists());
        write(&link, "results").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "results");
    }

    #[test]
    fn one_file_under_two_names_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (one, same) = (folder.path().join("x"), folder.path().join("./x"));
        let other = folder.path().join("y");
        let expect = |json, html, trace| {
            expect_different_files(&[("--json", json), ("--html", html), ("--trace", trace)])
        };
        let refused = expect(Some(&*one), Some(&*same), None).unwrap_err();
        assert!(
            refused.starts_with("--json and --html both name"),
            "{refused}"
        );
        let refused = expect(Some(&*other), Some(&*one), Some(&*same)).unwrap_err();
        assert!(
            refused.starts_with("--html and --trace both name"),
            "{refused}"
        );
        assert!(expect(Some(&*one), Some(&*other), None).is_ok());
        assert!(expect(None, Some(&*one), None).is_ok());
    }
}
