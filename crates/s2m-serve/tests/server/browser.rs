//! The page in a real Chromium; `make browser` installs what drives it.

use std::path::Path;
use std::process::Command;

use crate::client::Page;

#[test]
fn the_page_in_a_browser() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_folder.join("../..");
    let python = root.join(".runtime/browser/bin/python");
    if !Path::new("/usr/bin/chromium").exists() || !python.exists() {
        println!(
            "skipped: the page was not tried in a browser; `make browser` does, with Chromium at /usr/bin/chromium"
        );
        return;
    }
    for model in ["mnist-even", "gaussians-exact"] {
        let page = Page::open(model);
        let address = format!("http://127.0.0.1:{}/#{}", page.port, page.token);
        let shots = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("browser")
            .join(model);
        let tour = Command::new(&python)
            .arg(crate_folder.join("tests/browser/page.py"))
            .args([&address, &shots.display().to_string()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&tour.stdout);
        let errors = String::from_utf8_lossy(&tour.stderr);
        assert!(tour.status.success(), "{model}\n{said}\n{errors}");
        println!(
            "{model}: {} checks, screenshots in {}",
            said.lines().count() - 1,
            shots.display()
        );
    }
}
