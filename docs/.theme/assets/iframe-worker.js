// Search, when the pages are opened from the disk: browsers start no worker from a file, so its script runs in a frame.
// The name of this file tells the plugin `offline` that the theme need not load such a script from another host.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.addEventListener("load", () => this.start(frame.contentWindow, url), { once: true });
      frame.srcdoc = "<!doctype html><title>Search</title>";
      document.documentElement.append(frame);
    }

    start(inside, url) {
      // What the script calls by these names would reach the frame itself.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        this.inside = inside;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
      inside.document.head.append(script);
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
  };
}
