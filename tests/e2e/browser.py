"""A headless Chromium, driven over --remote-debugging-pipe: the DevTools protocol without a socket.

Messages are JSON texts that end in a zero byte, written to its descriptor 3 and read from 4. The
browser belongs to a box (harness.py): its profile lies there, and its processes carry the box's
mark, so that a test that leaves one behind fails.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time

from harness import PATIENCE, SLOW, Skip

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Drawing what moves, 60 times a second, takes most of a page's processor time.
STILL = ("--force-prefers-reduced-motion",)


class Browser:
    """One page. Use with `with`: it is closed and its profile removed at the end. What moves in it
    stands still unless it `moves`."""

    def __init__(self, box, width=1280, height=800, dark=False, moves=False):
        program = next((p for p in map(shutil.which, NAMES) if p), None)
        if not program:
            raise Skip("chromium is not installed (Debian's package: chromium)")
        still = () if moves else STILL
        self.profile = box.path(f"browser-{box.next_number()}")
        os.makedirs(self.profile)
        self.next, self.rest, self.events, self.session = 0, b"", [], None
        their_in, self.to = os.pipe()
        self.frm, their_out = os.pipe()

        def descriptors():  # in the child: 3 and 4 may be taken by what goes there
            first, second = os.dup(their_in), os.dup(their_out)
            high = os.dup2(first, 200), os.dup2(second, 201)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, *still, f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=descriptors,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            # Its socket's path, which may have 107 bytes, is seen from here.
            cwd=self.profile,
            env=box.environment({"TMPDIR": ".", "XDG_RUNTIME_DIR": self.profile}),
        )
        os.close(their_in)
        os.close(their_out)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Inspector"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        if dark:
            feature = {"name": "prefers-color-scheme", "value": "dark"}
            self.call("Emulation.setEmulatedMedia", features=[feature])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.to)
        os.close(self.frm)
        end = time.monotonic() + PATIENCE * SLOW
        while os.path.exists(self.profile) and time.monotonic() < end:
            shutil.rmtree(self.profile, ignore_errors=True)  # its children are on their way out
            time.sleep(0.02)

    # ---- the protocol ---------------------------------------------------------------------------

    def receive(self, seconds=None):
        """The next message, or None after so many seconds."""
        while b"\0" not in self.rest:
            if not select.select([self.frm], [], [], seconds)[0]:
                return None
            part = os.read(self.frm, 1 << 16)
            if not part:
                raise AssertionError("the browser has ended")
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.next += 1
        message = {"id": self.next, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        # Its answer or its end; on a busy machine either takes long, and a test has a limit.
        while (answer := self.receive()).get("id") != self.next:
            if answer.get("method") == "Inspector.targetCrashed":
                raise AssertionError(f"the page's process ended before it answered to {method}")
            self.events.append(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    # ---- the page -------------------------------------------------------------------------------

    def size(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, url):
        found = self.call("Page.navigate", url=url)
        assert "errorText" not in found, f"{url}: {found['errorText']}"
        self.until("document.readyState === 'complete'", "whole page")

    def value(self, expression):
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def text(self, selector):
        """What can be read there ("" when it is hidden or not there)."""
        return self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " return e && e.getClientRects().length ? e.textContent.trim() : ''; })()"
        )

    def until(self, expression, what, seconds=PATIENCE):
        """Waits until the expression is true; returns its value."""
        end = time.monotonic() + seconds * SLOW
        while True:
            value = self.value(expression)
            if value:
                return value
            if time.monotonic() > end:
                seen = self.value("document.body.innerText")
                raise AssertionError(f"no {what}; the page says:\n{seen}\n{self.problems()}")
            time.sleep(0.05)

    def click(self, selector):
        """With the mouse, in the middle of it, once it lies still and nothing lies over it."""
        where = (
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " const x = r.x + r.width / 2, y = r.y + r.height / 2;"
            " return e.contains(document.elementFromPoint(x, y)) ? [x, y] : null; })()"
        )
        at, before, end = self.value(where), None, time.monotonic() + PATIENCE * SLOW
        while not at or at != before:
            assert time.monotonic() < end, f"{selector} cannot be clicked: {self.problems()}"
            time.sleep(0.1)
            at, before = self.value(where), at
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=at[0],
                y=at[1],
                button="left",
                clickCount=1,
            )

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path, whole=False):
        options = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            options = {"captureBeyondViewport": True, "clip": clip}
        data = self.call("Page.captureScreenshot", format="png", **options)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    # ---- what went wrong, and what went over the line -------------------------------------------

    def take_events(self):
        while (message := self.receive(0)) is not None:
            self.events.append(message)
        return self.events

    def problems(self):
        """Exceptions, what was written to the console, and what the browser itself complains of."""
        found = []
        for event in self.take_events():
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", str(details)))
            elif method == "Runtime.consoleAPICalled":
                found.append(f"console: {parameters['args']}")
            elif method == "Log.entryAdded":
                entry = parameters["entry"]
                found.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}")
        return found

    def requests(self):
        return [
            event["params"]["request"]["url"]
            for event in self.take_events()
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def received_bytes(self):
        """Of all that the page loads, headers included; once of what it asks for again and again.
        The stream of events is not over, and so not in it."""
        url, size = {}, {}
        for event in self.take_events():
            told = event.get("params", {})
            if event.get("method") == "Network.responseReceived":
                url[told["requestId"]] = told["response"]["url"]
            elif event.get("method") == "Network.loadingFinished":
                of = url[told["requestId"]]
                size[of] = max(size.get(of, 0), told["encodedDataLength"])
        return sum(size.values())
