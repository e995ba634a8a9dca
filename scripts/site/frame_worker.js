// A worker in a frame, for pages that are read from files: browsers start no worker there, and the search is one.
// It has what that needs: messages both ways.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inside = this.frame.contentWindow;
    inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.ready = new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = () => resolve(inside);
      script.onerror = () => reject(new Error(`cannot load ${url}`));
      inside.document.body.append(script);
    });
  }

  postMessage(data) {
    this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
