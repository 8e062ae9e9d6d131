"""Drives the page in a real Chromium: page.py ADDRESS FOLDER. Ends with 0, or with the first thing that is wrong.

Screenshots go to FOLDER. The server is started by the test that calls this, with `mnist-even` or `gaussians-exact`.
"""

import io
import json
import sys
import time
import zipfile
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]

# Every control has a name, every image a text, every field a label; no text is lost on its ground.
NAMES = """() => {
  const wrong = [];
  const seen = (node) => node.checkVisibility();
  const named = (node) => (node.getAttribute("aria-label") || node.textContent || "").trim()
    || [...(node.labels ?? [])].map((label) => label.textContent).join("").trim()
    || (node.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("").trim()
    || [...node.querySelectorAll("img[alt]")].map((img) => img.alt).join("").trim();
  for (const node of document.querySelectorAll("button, input, a, canvas, progress, [tabindex], table, select, textarea"))
    if (seen(node) && !named(node) && node.id !== "samples") wrong.push("no name: " + node.outerHTML.slice(0, 90));
  for (const img of document.images) if (img.getAttribute("alt") === null) wrong.push("no alt: " + img.outerHTML.slice(0, 60));
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  if (new Set(ids).size !== ids.length) wrong.push("an id is there twice");
  for (const name of ["main", "header", "h1", "html[lang]", "title", "[role=status]", "[aria-live]"])
    if (!document.querySelector(name)) wrong.push("there is no " + name);
  for (const section of document.querySelectorAll("main > section")) if (!section.getAttribute("aria-labelledby")) wrong.push("a section has no title");
  const levels = [...document.querySelectorAll("h1, h2, h3")].filter(seen).map((node) => Number(node.tagName[1]));
  levels.forEach((level, at) => { if (level > (levels[at - 1] ?? 0) + 1) wrong.push("a heading is skipped before " + level); });
  const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const colour = (text) => (text.match(/[0-9.]+/g) ?? []).map(Number);
  for (const node of document.querySelectorAll("p, dt, dd, label, legend, button, h1, h2, h3, th, td, pre, span, summary")) {
    if (!seen(node) || !node.textContent.trim() || node.disabled || node.closest(":disabled, .tile")) continue;
    let ground = node, at;
    while (ground && (at = colour(getComputedStyle(ground).backgroundColor), at.length === 4 && at[3] === 0)) ground = ground.parentElement;
    if (!ground) at = colour(getComputedStyle(document.documentElement).backgroundColor);
    const pair = [light(colour(getComputedStyle(node).color)), light(at)].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(2)}: ` + node.outerHTML.slice(0, 80));
  }
  // Edges by which a control is known, three to one against what is around it.
  for (const node of document.querySelectorAll("input[type=text], input[type=number], button:not(.tile):not(.first)")) {
    if (!seen(node) || node.disabled) continue;
    let ground = node.parentElement, at;
    while (ground && (at = colour(getComputedStyle(ground).backgroundColor), at.length === 4 && at[3] === 0)) ground = ground.parentElement;
    if (!ground) at = colour(getComputedStyle(document.documentElement).backgroundColor);
    const pair = [light(colour(getComputedStyle(node).borderTopColor)), light(at)].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 3) wrong.push(`contrast of an edge ${contrast.toFixed(2)}: ` + node.outerHTML.slice(0, 80));
  }
  return wrong;
}"""


def check(name, holds, told=""):
    if not holds:
        print(f"WRONG: {name} {told}")
        sys.exit(1)
    print(f"ok: {name}")


class Tour:
    def __init__(self, page, folder):
        self.page, self.folder = page, folder
        self.points = page.locator("#about").inner_text().startswith("points")

    def shot(self, name, **options):
        self.page.screenshot(path=str(self.folder / f"{name}.png"), **options)

    def text(self, selector):
        return self.page.locator(selector).inner_text()

    def names(self, where):
        wrong = self.page.evaluate(NAMES)
        check(f"names, headings and contrast, {where}", not wrong, "\n".join(wrong[:8]))

    def fits(self, width):
        widest = self.page.evaluate("() => document.documentElement.scrollWidth")
        check(f"nothing is wider than {width} pixels", widest <= width, str(widest))

    def drawn(self):
        expect(self.page.locator("#status")).to_contain_text("calls each", timeout=60_000)

    def count(self):
        if self.points:
            return int(self.page.locator("#plot").get_attribute("aria-label").split(" ")[0].replace(",", ""))
        return self.page.locator("#gallery .tile").count()

    def chips(self):
        page = self.page
        chip = page.locator(".chip").nth(1)
        check("the token has left the address", "#" not in page.url)
        check("the first label is asked for", page.input_value("#query") == "A")
        chip.click()
        check("a chip says with", page.input_value("#query") == "A + B")
        chip.click()
        check("then without", page.input_value("#query") == "A - B")
        check("and a reader hears it", chip.get_attribute("aria-label").startswith("B: without"))
        chip.click()
        check("then either", page.input_value("#query") == "A")

    def typing(self):
        page = self.page
        page.fill("#query", "A + Bb")
        expect(page.locator("#query-said")).to_contain_text("unknown label `Bb`")
        expect(page.locator("#query-said .hint")).to_contain_text("did you mean `B`?")
        check("a wrong query cannot be drawn", page.locator("#draw").is_disabled())
        check("and is marked", page.get_attribute("#query", "aria-invalid") == "true")
        self.shot("wrong")
        for value, said in [("-3", "from 1 to"), ("1.5", "from 1 to"), ("", "from 1 to")]:
            page.fill("#count", value)
            expect(page.locator("#number-said")).to_contain_text(said)
            check(f"{value!r} samples cannot be drawn", page.locator("#draw").is_disabled())
        page.fill("#count", "16")
        for value in ["-1", "1.5"]:
            page.fill("#seed", value)
            expect(page.locator("#number-said")).to_contain_text("Seed: a whole number")
            check(f"nor seed {value}", page.locator("#draw").is_disabled())
        page.fill("#seed", "0")
        expect(page.locator("#number-said")).to_be_empty()
        page.fill("#query", "A | B")
        expect(page.locator("#query-said")).to_contain_text("More than the chips can show")
        page.fill("#query", "A - B")
        expect(page.locator(".chip").nth(1)).to_have_attribute("data-state", "without")
        check("a typed query moves the chips", page.locator(".chip").nth(0).get_attribute("data-state") == "with")

    def drawing(self):
        page, n = self.page, 300 if self.points else 48
        page.fill("#count", str(n))
        page.fill("#seed", "7")
        expect(page.locator("#shell")).to_contain_text(f"-n {n} --seed 7")
        page.click("#draw")
        self.drawn()
        check("all samples are there", self.count() == n, str(self.count()))
        check("the lines are theirs", self.text("#lines-said") == "These lines give exactly the samples above.")
        model = self.text("#model")
        check("the command line", self.text("#shell") == f's2m sample {model} "A - B" -n {n} --seed 7 --out samples', self.text("#shell"))
        check("the Python lines", self.text("#python").strip() == f'import s2m\ndraw = s2m.Model("{model}").sample("A - B", n={n}, seed=7)', self.text("#python"))
        return n

    def slider(self):
        page = self.page
        expect(page.locator("#classes")).to_be_visible(timeout=60_000)
        expect(page.locator("#outlook-share")).to_contain_text("%")
        before = self.text("#outlook-calls")
        began = time.time()
        page.locator("#purity").focus()
        page.keyboard.press("End")
        took = time.time() - began
        expect(page.locator("#shell")).to_contain_text("--purity 0.999")
        check("the slider answers at once", took < 0.5, f"{took:.2f} s")
        check("and says what it means", page.get_attribute("#purity", "aria-valuetext") == "99.9 %")
        if not self.points:
            check("a purer wish costs more", self.text("#outlook-calls") != before, before)
        check("the lines are no longer theirs", self.text("#lines-said") == "These lines give what Draw will show.")
        check("Python is told as well", "purity=0.999" in self.text("#python"))
        self.shot("purity")
        page.keyboard.press("Home")
        expect(page.locator("#shell")).not_to_contain_text("--purity")

    def classes(self):
        page = self.page
        page.click('button[aria-label="Draw A + B"]')
        expect(page.locator("#status")).to_contain_text("of A + B", timeout=60_000)
        self.drawn()
        check("a joint class is drawn by a click", page.input_value("#query") == "A + B")

    def why(self):
        page = self.page
        if self.points:
            page.locator("#plot").focus()
            page.keyboard.press("ArrowRight")
            first = page.locator("#pointed").inner_text()
            check("a reader hears which point it is", first.startswith("Sample 1 of ") and "A " in first, first)
            page.keyboard.press("ArrowRight")
            check("and the next", page.locator("#pointed").inner_text().startswith("Sample 2 of "))
            page.keyboard.press("Enter")
        else:
            page.locator("#gallery .tile").nth(3).click()
        expect(page.locator("#why .verdict")).to_contain_text("kept by reject", timeout=20_000)
        check("its steps are bars", page.locator("#why .step .bar").count() >= 5)
        check("it has neighbours", page.locator("#why .near li").count() == 8)
        page.click("#more")
        expect(page.locator("#more-place .near li")).to_have_count(24, timeout=20_000)
        self.names("with an explanation")
        self.shot("why", full_page=True)
        page.keyboard.press("Escape")
        expect(page.locator("#why")).to_be_hidden()

    def download(self, n):
        page = self.page
        with page.expect_download(timeout=60_000) as got:
            page.click("#download")
        check("the file has its name", got.value.suggested_filename == "samples.zip")
        with zipfile.ZipFile(io.BytesIO(Path(got.value.path()).read_bytes())) as files:
            check("the file is whole", files.testzip() is None)
            report = json.loads(files.read("samples/report.json"))
            rows = files.read("samples/metadata.csv").decode().count("\n") - 1
            check("it holds all samples", report["samples"] == n == rows, f"{report['samples']} {rows}")
            check("and the query on the page", report["query"] == page.input_value("#query"))

    def after_download(self):
        """What is shown can still be explained."""
        page = self.page
        if self.points:
            page.locator("#plot").focus()
            page.keyboard.press("ArrowRight")
            page.keyboard.press("Enter")
        else:
            page.locator("#gallery .tile").nth(2).click()
        expect(page.locator("#why .verdict")).to_contain_text("kept by reject", timeout=20_000)
        focused = page.evaluate("() => document.activeElement.id")
        check("the explanation has the focus", focused == "why", focused)
        page.keyboard.press("Escape")

    def letters(self):
        """Keys of one letter can be switched off, and do nothing while one is held down."""
        page = self.page
        theme = "() => document.documentElement.dataset.theme"
        before = page.evaluate(theme)
        page.locator("summary").click()
        page.locator("#letters").uncheck()
        page.locator("h1").click()
        page.keyboard.press("t")
        check("letters that are switched off do nothing", page.evaluate(theme) == before)
        page.locator("#letters").check()
        page.locator("h1").click()
        page.keyboard.down("t")
        page.keyboard.down("t")
        page.keyboard.down("t")
        page.keyboard.up("t")
        check("a key that is held acts once", page.evaluate(theme) != before)
        page.keyboard.press("t")
        page.locator("summary").click()

    def aloud(self):
        """What is read aloud is the beginning and the end, and not every step."""
        page = self.page
        page.evaluate("""() => { window.aloud = [];
          new MutationObserver(() => window.aloud.push(document.getElementById("announced").textContent))
            .observe(document.getElementById("announced"), { childList: true, characterData: true, subtree: true }); }""")
        began = time.time()
        page.click("#draw")
        self.drawn()
        heard = page.evaluate("() => window.aloud")
        few = 3 + (time.time() - began) / 5
        check("a reader hears the beginning and the end", heard[0].startswith("Drawing") and "calls each" in heard[-1], str(heard))
        check("and little between", len(heard) <= few, str(heard))

    def keyboard(self):
        page = self.page
        page.locator("h1").click()
        page.keyboard.press("/")
        check("/ goes to the query", page.evaluate("() => document.activeElement.id") == "query")
        page.keyboard.press("Control+A")
        page.keyboard.type("A")
        page.keyboard.press("Enter")
        expect(page.locator("#status")).to_contain_text("samples of A:", timeout=60_000)
        if not self.points:
            page.locator("#gallery .tile").first.focus()
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowDown")
            at = page.evaluate("() => [...document.querySelectorAll('#gallery .tile')].indexOf(document.activeElement)")
            check("arrow keys walk through the samples", at > 1, str(at))
            check("one tab stop for all of them", page.locator("#gallery .tile[tabindex='0']").count() == 1)
        page.locator("h1").click()
        order = []
        for _ in range(14):
            page.keyboard.press("Tab")
            order.append(page.evaluate("() => document.activeElement.id || document.activeElement.className"))
        wanted = ["theme", "chip", "chip", "query", "count", "seed", "purity", "draw"]
        places = [order.index(name) for name in wanted if name in order]
        check("tab goes from top to bottom", len(places) == len(wanted) and places == sorted(places), str(order))

    def looks(self):
        page = self.page
        before = page.evaluate("() => document.documentElement.dataset.theme")
        page.locator("h1").click()
        page.keyboard.press("t")
        after = page.evaluate("() => document.documentElement.dataset.theme")
        check("a key switches the colours", {before, after} == {"light", "dark"})
        self.names(after)
        for width, height in [(400, 860), (820, 1100), (1280, 900), (2000, 1200)]:
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(150)
            self.fits(width)
            self.shot(f"{after}-{width}", full_page=width == 400)
        page.keyboard.press("t")
        page.wait_for_timeout(150)
        self.names(before)
        for width in [2000, 1280, 400]:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(150)
            self.fits(width)
            self.shot(f"{before}-{width}")


def main(address, folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
        page = context.new_page()
        faults, elsewhere = [], []
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" and "422" not in said.text and "503" not in said.text else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        origin = address.split("/#")[0]
        page.on("request", lambda sent: elsewhere.append(sent.url) if not sent.url.startswith((origin, "data:", "blob:")) else None)
        page.goto(address)
        page.wait_for_selector("body[data-ready]", timeout=20_000)
        tour = Tour(page, folder)
        tour.shot("first")
        tour.names("at first")
        tour.chips()
        tour.typing()
        n = tour.drawing()
        tour.slider()
        tour.classes()
        tour.why()
        tour.download(n)
        tour.after_download()
        tour.aloud()
        tour.letters()
        tour.keyboard()
        tour.looks()
        page.reload()
        page.wait_for_selector("body[data-ready]", timeout=20_000)
        check("a reload needs no address", page.locator("#locked").is_hidden())
        stranger = browser.new_context().new_page()
        stranger.goto(origin)
        expect(stranger.locator("#locked")).to_contain_text("needs the whole address")
        broken = browser.new_context().new_page()
        broken.on("pageerror", lambda error: faults.append(str(error)))
        broken.goto(origin + "/#%")
        expect(broken.locator("#locked")).to_contain_text("needs the whole address")
        dark = browser.new_context(color_scheme="dark").new_page()
        dark.goto(address)
        check("the system's colours are the first", dark.evaluate("() => document.documentElement.dataset.theme") == "dark")
        check("nothing was asked for elsewhere", not elsewhere, str(elsewhere))
        check("the console is quiet", not faults, str(faults))
        browser.close()
    print("all is well")


if __name__ == "__main__":
    main(*sys.argv[1:])
