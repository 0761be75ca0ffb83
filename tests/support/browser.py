"""A headless Chromium that tests drive: open a page, press and type, read, take pictures, print, catch downloads.

It speaks the DevTools protocol over the two pipes of `--remote-debugging-pipe`, JSON texts that end with a zero byte:
no port, no websocket, and the browser ends with the process that started it.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections import deque
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-sync",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-background-networking",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0
"""Seconds until a call or an event is given up."""
KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    " ": (32, " "),
    "Escape": (27, ""),
    "ArrowDown": (40, ""),
    "ArrowRight": (39, ""),
}
"""Name of a key -> its virtual code and its text."""


def find_browser():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class BrowserError(Exception):
    """The browser refused a call, a script threw an error, or nothing came in time."""


class Browser:
    """A running Chromium with a profile of its own. A context manager; `open` gives a tab."""

    def __init__(self, program=None):
        self.folder = Path(tempfile.mkdtemp(prefix="expril-browser-"))
        self.downloads = self.folder / "downloads"
        self.downloads.mkdir()
        self.number, self.events, self.unread = 0, deque(), b""
        reads, self.writes = os.pipe()
        self.reads, writes = os.pipe()
        # The browser reads from its descriptor 3 and writes to 4, so ours are moved out of the way first.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (reads, writes)]
        os.close(reads)
        os.close(writes)
        command = [program or find_browser(), *FLAGS, f"--user-data-dir={self.folder / 'profile'}", "about:blank"]
        files = [(os.POSIX_SPAWN_OPEN, end, os.devnull, os.O_RDWR, 0) for end in (0, 1, 2)]
        files += [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends, 3)]
        self.process = os.posix_spawn(command[0], command, os.environ, file_actions=files)
        for end in ends:
            os.close(end)
        options = {"behavior": "allow", "downloadPath": str(self.downloads), "eventsEnabled": True}
        self.call("Browser.setDownloadBehavior", **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End the browser and remove its profile."""
        for end in (self.writes, self.reads):
            os.close(end)
        limit = time.monotonic() + 10
        while os.waitpid(self.process, os.WNOHANG) == (0, 0):
            if time.monotonic() > limit:
                os.kill(self.process, signal.SIGKILL)
            time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, session="", **parameters):
        """Call a method of the protocol and return its result; `session` names a tab."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.writes, text) :]
        limit = time.monotonic() + PATIENCE
        while (answer := self._read(limit)).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def wait(self, method, session="", **expected):
        """Return the parameters of the first event of that name that has these values, and forget it."""
        limit = time.monotonic() + PATIENCE
        while True:
            for event in list(self.events):
                parameters = event.get("params", {})
                fits = expected.items() <= {k: v for k, v in parameters.items() if k in expected}.items()
                if event.get("method") == method and event.get("sessionId", "") == session and fits:
                    self.events.remove(event)
                    return parameters
            self.events.append(self._read(limit))

    def take(self, method, session):
        """Return the parameters of all events of that name so far, and forget them."""
        events = [event for event in self.events if (event["method"], event.get("sessionId")) == (method, session)]
        for event in events:
            self.events.remove(event)
        return [event["params"] for event in events]

    def open(self, page, **view):
        """Open a file in a new tab and wait until it has loaded; see `Tab.show` for the view."""
        return Tab(self, page, view)

    def _read(self, limit):
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.reads], [], [], max(0.0, limit - time.monotonic()))
            data = os.read(self.reads, 1 << 20) if ready else b""
            if not data:
                raise BrowserError("the browser ended" if ready else f"no answer in {PATIENCE:.0f} seconds")
            self.unread += data
        text, _, self.unread = self.unread.partition(b"\0")
        return json.loads(text)


class Tab:
    """One page in a browser, of 1200 x 900 pixels, light, on a screen, unless it is told otherwise."""

    def __init__(self, browser, page, view):
        self.browser, self.log = browser, []
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.show(**view)
        self.call("Page.navigate", url=Path(page).resolve().as_uri())
        self.browser.wait("Page.loadEventFired", self.session)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method, **parameters):
        """Call a method of the protocol for this tab."""
        return self.browser.call(method, self.session, **parameters)

    def show(self, width=1200, height=900, *, dark=False, media=""):
        """Set the size in pixels, the reader's theme, and the medium ("print", or "" for a screen)."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[theme])

    def run(self, script):
        """Return the value of a JavaScript expression, or of its promise, as JSON has it."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    @property
    def errors(self):
        """What the console, the security policy and scripts have complained of since the tab was opened."""
        for entry in self.browser.take("Log.entryAdded", self.session):
            self.log.append(entry["entry"]["text"])
        for entry in self.browser.take("Runtime.consoleAPICalled", self.session):
            self.log.append(" ".join(str(part.get("value", part.get("description"))) for part in entry["args"]))
        for entry in self.browser.take("Runtime.exceptionThrown", self.session):
            details = entry["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", "").partition("\n")[0]
            self.log.append(f"{details['text']} {thrown}".rstrip())
        return list(self.log)

    @property
    def html(self):
        """The page as it is now, after its script ran."""
        return self.run("document.documentElement.outerHTML")

    def picture(self, path=None, *, whole=True):
        """Return a PNG of the `whole` page, or of what the window shows; also write it to a file."""
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
        if path is not None:
            Path(path).write_bytes(data)
        return data

    def pdf(self, path=None, **options):
        """Return the printed page as PDF, on A4 unless `options` of Page.printToPDF say otherwise."""
        options = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": False} | options
        data = base64.b64decode(self.call("Page.printToPDF", **options)["data"])
        if path is not None:
            Path(path).write_bytes(data)
        return data

    def click(self, selector):
        """Press the middle of the first element of a CSS selector with the mouse, after scrolling to it."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{found}.scrollIntoView({{block: 'center', inline: 'center', behavior: 'instant'}})")
        box = self.run(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({found}.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            place = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, **place)

    def press(self, key):
        """Press a key of `KEYS`."""
        code, text = KEYS[key]
        names = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **names)
        self.call("Input.dispatchKeyEvent", type="keyUp", **names)

    def download(self):
        """Wait until a download has ended and return its file's suggested name and its bytes."""
        start = self.browser.wait("Browser.downloadWillBegin")
        self.browser.wait("Browser.downloadProgress", guid=start["guid"], state="completed")
        path = self.browser.downloads / start["suggestedFilename"]
        data = path.read_bytes()
        path.unlink()
        return path.name, data
