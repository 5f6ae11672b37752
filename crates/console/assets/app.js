// JavaScript adds to pages that work without it: live progress, form and result on one page, previews, zoom, copying.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const create = (tag, properties) => Object.assign(document.createElement(tag), properties);
const button = (textContent, onclick) => create("button", { type: "button", textContent, onclick });
// A state that the page shows anyway is said to screen readers alone.
const say = (text, isHidden = false) => {
  const notice = document.querySelector("#notice");
  notice.classList.toggle("hidden", isHidden);
  notice.textContent = text;
};
// The same characters as on the pages of the server.
const printable = (text) => text.replace(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, "\ufffd");
const parse = (html) => new DOMParser().parseFromString(html, "text/html");
const setTitle = (state) => (document.title = `${state} · ${document.title.split(" · ").slice(-2).join(" · ")}`);

// Clocks run between the events of the server.
const tick = () => {
  for (const clock of all("[data-elapsed]")) {
    clock.start ??= performance.now() - clock.dataset.elapsed;
    clock.textContent = `${((performance.now() - clock.start) / 1000).toFixed(1)} s`;
  }
};
setInterval(tick, 200);

const localize = (root) => {
  for (const time of all("time", root)) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.valueOf())) continue;
    time.title = time.textContent;
    time.textContent = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
};

const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));
// Reads a page as soon as the console and the service respond.
const read = async (address) => {
  const response = await fetch(address).catch(() => undefined);
  if (!(response?.status < 502)) return pause(2000).then(() => read(address));
  // A console that has started anew does not know its earlier runs.
  if (response.status === 404 && address.includes("/runs/") && address !== location.href) throw new Error("the console was gone. The run was started; Runs shows what became of it");
  return response;
};
// With a fragment, the address would only be a place of this page.
const reload = () => read(location.href).then(() => location.replace(location.pathname + location.search));
if (document.querySelector("[data-retry]")) pause(2000).then(reload);

// Follows a run without a stream, which would need one of the connections, and returns its last page.
const settle = async (link, wait = 250) => {
  const page = parse(await (await read(link.href)).text());
  link.href = page.querySelector("a.task")?.getAttribute("href") ?? link.href;
  return page.querySelector("[data-live]") ? pause(wait).then(() => settle(link, Math.min(2 * wait, 2000))) : page;
};

// A page that is loaded again has the inputs of its latest try, and shows it.
const remember = (root) => {
  const [form, task] = [document.querySelector("form.run"), root.querySelector("a.task")?.pathname.split("/").pop()];
  if (form && task) history.replaceState(null, "", `${form.action}?from=${task}`);
};

// Live progress. A browser has six connections for this console in all its tabs: hidden ones give theirs up.
const follow = (area, ended) => {
  const isList = area.matches(".runs");
  let source;
  const end = (wait) => pause(wait, close()).then(() => ended(wait)).catch(tell);
  // A console that starts anew does not know the runs of this page, so the page is read again.
  const lose = () => {
    area.classList.add("lost");
    area.before(create("p", { className: "failure", role: "alert", textContent: "Error: the console does not respond. This page tries again every two seconds." }));
    end(2000);
  };
  const keyOf = (control) => control.getAttribute("href") ?? control.textContent;
  const receive = ({ data }) => {
    const { run, html, state, over } = JSON.parse(data);
    // The page of the result says how the run has ended.
    if (over && !isList) return end(0);
    let place = area.querySelector(`[data-run="${run}"]`);
    // The page has all earlier runs, so an unknown one is the newest.
    if (!place && isList) {
      place = create("li");
      place.dataset.run = run;
      area.prepend(place);
    }
    if (!place) return;
    const focused = place.contains(document.activeElement) && keyOf(document.activeElement);
    place.innerHTML = html;
    localize(place);
    if (!isList) remember(place);
    // A run whose task the page has already, from the history.
    const address = isList && place.querySelector("a").getAttribute("href");
    if (address && all("li:not([data-run]) a", area).some((link) => link.getAttribute("href") === address)) place.remove();
    if (focused) all("button, a", place).find((control) => keyOf(control) === focused)?.focus();
    if (isList) return;
    const status = area.querySelector("[role=status]");
    if (status.textContent !== state) status.textContent = state;
    setTitle(state);
  };
  const update = () => {
    source?.close();
    if (document.hidden) return;
    source = Object.assign(new EventSource(area.dataset.live), { onmessage: receive, onerror: lose });
  };
  const close = () => {
    document.removeEventListener("visibilitychange", update);
    source?.close();
  };
  document.addEventListener("visibilitychange", update);
  addEventListener("pagehide", () => source?.close());
  update();
  return close;
};

// Files: dropped onto their area, and shown before they are sent.
const accept = (area, given) => {
  const input = area.querySelector("input[type=file]");
  const files = new DataTransfer();
  const taken = given.slice(0, input.multiple ? undefined : 1);
  taken.forEach((file) => files.items.add(file));
  say(given.length > taken.length ? `This input takes one file: only ${printable(taken[0].name)} is used.` : "");
  input.files = files.files;
  input.dispatchEvent(new Event("change", { bubbles: true }));
};
// The button says what a click does, or what goes on: a form is not sent twice at the same time.
const label = (form, state = form.dataset.state ?? "") => {
  const [primary, count] = [form.querySelector(".go .primary"), form.querySelector("input[type=file][multiple]")?.files.length];
  form.dataset.state = state;
  Object.assign(primary, { textContent: state || (count > 1 ? `Run ${count} times` : "Run"), ariaDisabled: Boolean(state) });
};
const takeFiles = (area) => {
  const [input, url, preview, chosen] = ["input[type=file]", "input[type=url]", ".preview", ".chosen"].map((part) => area.querySelector(part));
  const form = area.closest("form.run");
  // Several files for the only file of a model are as many runs.
  if (form) input.multiple = all(".drop", form).length === 1;
  const empty = chosen.textContent;
  const remove = Object.assign(button("Remove", () => input.focus(accept(area, []))), { className: "quiet danger", hidden: true });
  if (form) input.after(remove);
  const isAccepted = ({ type }) => !type || !input.accept || input.accept.split(",").some((wanted) =>
    wanted.trim().endsWith("/*") ? type.startsWith(wanted.trim().slice(0, -1)) : type === wanted.trim());
  const show = () => {
    // The service would refuse it, after the upload.
    const isGood = (file) => file.size <= 100 * 2 ** 20 && isAccepted(file);
    const wrong = [...input.files].find((file) => !isGood(file));
    if (wrong) say(`Error: ${printable(wrong.name)} ${isAccepted(wrong) ? "has more than 100 MiB, which the storage does not take" : `is of the type ${wrong.type}, not of ${input.accept}`}.`);
    // A form of an upload is sent as a whole.
    const most = form ? Infinity : 500;
    if (input.files.length > most) say(`Error: an upload takes ${most} files. Only the first ${most} are chosen.`);
    const good = new DataTransfer();
    [...input.files].filter(isGood).slice(0, most).forEach((file) => good.items.add(file));
    input.files = good.files;
    const files = [...input.files];
    // The later choice counts.
    if (files.length && url) url.value = "";
    remove.hidden = !files.length;
    preview.replaceChildren();
    all(":scope > .error", area).forEach((error) => error.remove());
    for (const [place, file] of files.entries()) {
      const tag = { image: "img", video: "video" }[file.type.split("/")[0]];
      if (!tag || file.type.startsWith("image/svg")) continue;
      const shown = create(tag, { alt: printable(file.name), src: URL.createObjectURL(file), place, hidden: place > 11 });
      shown.onerror = () => (chosen.textContent += ` (${printable(file.name)} is not shown by this browser)`);
      preview.append(shown);
    }
    chosen.textContent = printable(files.map((file) => file.name).join(", ")) || empty;
    if (form) label(form);
    all(".go .each", form ?? area).forEach((each) => (each.hidden = files.length < 2));
    area.closest(".invalid")?.classList.remove("invalid");
  };
  input.addEventListener("change", show);
  url?.addEventListener("input", () => url.value && input.files.length && accept(area, []));
  // Browsers restore the files of a form after the page was loaded.
  addEventListener("pageshow", () => input.files.length && show());
};
// A drop or a paste anywhere goes to the area under it, else to the first one without a file.
const receiveFiles = (event, data) => {
  const files = [...(data?.files ?? [])];
  const areas = all(".drop");
  if (!files.length) return;
  event.preventDefault();
  if (!areas.length) return say("This page takes no file: choose a model first.");
  accept(event.target.closest?.(".drop") ?? areas.find((area) => !area.querySelector(".preview > *")) ?? areas[0], files);
};
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    const area = event.target.closest?.(".drop") ?? document.querySelector(".drop");
    area?.classList.toggle("over", kind === "dragenter" || kind === "dragover");
    if (kind === "drop") receiveFiles(event, event.dataTransfer);
  });
}
addEventListener("paste", (event) => {
  const isText = event.target.matches?.("textarea, input:not([type=file])") && event.clipboardData.types.includes("text/plain");
  if (!isText) receiveFiles(event, event.clipboardData);
});

// Numbers: a slider beside the field. It has no thumb to read off while the field is empty.
const slide = (slider) => {
  const field = slider.nextElementSibling;
  const show = () => {
    slider.classList.toggle("unset", !field.value);
    slider.setAttribute("aria-valuetext", field.value || "not set");
    if (field.value) slider.value = field.value.replace(",", ".");
  };
  slider.hidden = false;
  slider.addEventListener("input", () => show((field.value = slider.value)));
  field.addEventListener("input", show);
  field.addEventListener("change", () => (field.value = field.value.trim().replace(/^(-?\d*),(\d+)$/, "$1.$2")));
  show();
};

const tell = ({ message }) => say(`Error: ${message}.`);
// A picture in another size or format. Some browsers lack a format, or give pages noise in place of pictures.
const convert = async (picture, width, height, type, name) => {
  const [canvas, probe] = [create("canvas", { width, height }), create("canvas", { width: 1, height: 1 }).getContext("2d")];
  probe.fillRect(0, 0, 1, 1);
  if (`${probe.getImageData(0, 0, 1, 1).data}` !== "0,0,0,255") throw new Error("this browser does not let a page read pictures");
  const context = canvas.getContext("2d");
  // A JPEG has no transparency.
  context.fillStyle = type === "jpeg" ? "#fff" : "#0000";
  context.fillRect(0, 0, width, height);
  context.drawImage(picture, 0, 0, width, height);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, `image/${type}`, 0.92));
  if (blob?.type !== `image/${type}`) throw new Error(`this browser does not write ${type}`);
  return new File([blob], name.replace(/\.[^.]*$/, `.${type.replace("jpeg", "jpg")}`), { type: blob.type });
};

// Pictures: input beside output under one slider when they have one shape, zoom, full screen, other formats.
const view = async (area) => {
  const images = all(".stage img", area);
  const [stage, slider, tools] = [".stage", "input[type=range]", ".tools"].map((part) => area.querySelector(part));
  const last = images.at(-1);
  let [zoom, x, y, dragged] = [1, 0, 0, undefined];
  const set = (name, value) => stage.style.setProperty(name, value);
  const limited = (value, low) => Math.max(low, Math.min(0, value));
  const place = () => {
    const { width, height } = last.parentElement.getBoundingClientRect();
    [x, y] = [limited(x, width * (1 - zoom)), limited(y, height * (1 - zoom))];
    set("--zoom", zoom);
    set("--x", `${x}px`);
    set("--y", `${y}px`);
    area.classList.toggle("zoomed", zoom > 1);
  };
  const zoomTo = (wanted, at) => {
    const box = last.parentElement.getBoundingClientRect();
    const [px, py] = at ? [at.clientX - box.left, at.clientY - box.top] : [box.width / 2, box.height / 2];
    const next = Math.max(1, Math.min(32, wanted));
    [x, y] = [px - ((px - x) * next) / zoom, py - ((py - y) * next) / zoom];
    zoom = next;
    place();
  };
  const move = (value) => {
    slider.value = value;
    set("--at", `${slider.value}%`);
    slider.setAttribute("aria-valuetext", `${slider.value} % input, ${100 - slider.value} % output`);
  };
  const saved = area.querySelector(".save");
  const save = (type) => last.decode().then(() => convert(last, last.naturalWidth, last.naturalHeight, type, new URL(saved.href).searchParams.get("download")))
    .then((file) => download(file, file.name), tell);
  const tool = (text, ariaLabel, act) => Object.assign(button(text, act), { ariaLabel });
  saved.after(tool("JPEG", "Download as JPEG", () => save("jpeg")), tool("WebP", "Download as WebP", () => save("webp")));
  const zooms = create("span", { className: "zooming" });
  zooms.append(
    tool("−", "Zoom out", () => zoomTo(zoom / 1.5)),
    tool("+", "Zoom in", () => zoomTo(zoom * 1.5)),
    tool("1:1", "Original size", () => zoomTo(last.naturalWidth / last.getBoundingClientRect().width * zoom / devicePixelRatio)),
    tool("Fit", "Fit the page", () => zoomTo(1)),
    document.fullscreenEnabled ? button("Full screen", () => (document.fullscreenElement ? document.exitFullscreen() : area.requestFullscreen())) : "",
  );
  tools.append(zooms);
  stage.addEventListener("wheel", (event) => {
    // Without a focus in it, the wheel scrolls the page past the picture.
    if (!event.ctrlKey && zoom === 1 && !area.contains(document.activeElement) && !document.fullscreenElement) return;
    if (zoom === 1 && event.deltaY > 0) return;
    event.preventDefault();
    zoomTo(zoom * Math.exp(-event.deltaY / 300), event);
  }, { passive: false });
  stage.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    event.preventDefault();
    (slider?.hidden === false ? slider : zooms.querySelector("button")).focus({ preventScroll: true });
    dragged = event;
    stage.setPointerCapture(event.pointerId);
    drag(event);
  });
  const drag = (event) => {
    if (!dragged) return;
    if (zoom > 1) [x, y] = [x + event.clientX - dragged.clientX, y + event.clientY - dragged.clientY];
    else if (area.classList.contains("slides")) {
      const box = stage.getBoundingClientRect();
      move(Math.round((100 * (event.clientX - box.left)) / box.width));
    }
    dragged = event;
    place();
  };
  stage.addEventListener("pointermove", drag);
  area.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step || zoom === 1 || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    [x, y] = [x + 60 * step[0], y + 60 * step[1]];
    place();
  });
  for (const kind of ["pointerup", "pointercancel"]) stage.addEventListener(kind, () => (dragged = undefined));
  slider?.addEventListener("input", () => move(slider.value));
  await Promise.all(images.map((image) => image.decode())).catch(() => {});
  area.classList.add("zooms");
  if (images.length < 2) return;
  const [one, other] = images.map((image) => image.naturalWidth / image.naturalHeight);
  if (!(Math.abs(one / other - 1) <= 0.03)) return;
  area.classList.add("slides");
  slider.hidden = false;
  move(50);
};

// A ZIP archive without compression: pictures are compressed already.
const crcTable = Uint32Array.from({ length: 256 }, (_, crc) => {
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});
const crc32 = (bytes) => ~bytes.reduce((crc, byte) => crcTable[(crc ^ byte) & 255] ^ (crc >>> 8), -1) >>> 0;
const sizeOf = (parts) => parts.reduce((sum, part) => sum + (part.size ?? part.length), 0);
// Numbers of two bytes, and of four where the letter is `I`.
const pack = (layout, ...numbers) => Uint8Array.from(numbers.flatMap((value, place) =>
  Array.from({ length: layout[place] === "I" ? 4 : 2 }, (_, byte) => (value >>> (8 * byte)) & 255)));
const zip = async (files) => {
  const [parts, directory] = [[], []];
  for (const [fileName, blob] of files) {
    const name = new TextEncoder().encode(fileName);
    const crc = crc32(new Uint8Array(await blob.arrayBuffer()));
    // Version 2.0, names in UTF-8, not compressed, 1980-01-01, no extra field.
    const common = [20, 0x800, 0, 0, 0x21, crc, blob.size, blob.size, name.length, 0];
    directory.push(pack("IHHHHHHIIIHHHHHII", 0x02014b50, 20, ...common, 0, 0, 0, 0, sizeOf(parts)), name);
    parts.push(pack("IHHHHHIIIHH", 0x04034b50, ...common), name, blob);
  }
  if (sizeOf(parts) >= 2 ** 32) throw new Error("the outputs have more than 4 GiB");
  directory.push(pack("IHHHHIIH", 0x06054b50, 0, 0, files.length, files.length, sizeOf(directory), sizeOf(parts), 0));
  return new Blob([...parts, ...directory], { type: "application/zip" });
};
const download = (blob, name) => create("a", { href: URL.createObjectURL(blob), download: name }).click();

// Several files for one input: a run for each, three at a time, with one bar and one archive of the outputs.
const runEach = async (send, model, files, area, first) => {
  const bar = create("progress", { max: files.length, value: 0, ariaLabel: "Runs that have ended" });
  const [status, list] = [create("p", { role: "status" }), create("ol", { className: "batch" })];
  area.replaceChildren(create("h2", { textContent: `${files.length} runs` }), bar, status, list);
  // Files that were not sent yet are lost with the page.
  const warn = (event) => event.preventDefault();
  addEventListener("beforeunload", warn);
  // The files whose runs have begun and did not fail: sent again, they might be paid again.
  const [outputs, begun] = [[], new Set()];
  let succeeded = 0;
  // A file is sent again while the console or the service is down: its form starts one run.
  const sendAgain = async (file, place) => {
    const response = await send(file, place).catch((error) => error instanceof TypeError ? undefined : Promise.reject(error));
    return response?.status < 502 ? response : pause(2000).then(() => sendAgain(file, place));
  };
  const runOne = async (place, file, link, state) => {
    const response = place ? await sendAgain(file, place) : first;
    const address = response.headers.get("location");
    if (address) link.href = address;
    if (address) begun.add(file);
    const page = address ? await settle(link) : parse(await response.text());
    const [problem, picture] = [".help .error, main .failure p", ".stage figure:last-child img"].map((part) => page.querySelector(part));
    state.textContent = ` ${problem?.textContent ?? page.title.split(" · ")[0]}`;
    if (picture) link.prepend(create("img", { src: `${picture.getAttribute("src")}?small`, alt: "" }));
    outputs[place] = all(".result .save", page).map(({ href }) => [`${place + 1}-${new URL(href).searchParams.get("download")}`, href]);
    if (page.querySelector(".result")) succeeded += 1;
    else begun.delete(file);
  };
  const queue = files.entries();
  const work = async () => {
    for (const [place, file] of queue) {
      const [item, link] = [create("li"), create("a", { textContent: printable(file.name) })];
      const state = create("span", { className: "muted", textContent: " In progress" });
      item.append(link, state);
      list.append(item);
      await runOne(place, file, link, state).catch(({ message }) => (state.textContent = ` Error: ${message}.`));
      bar.value += 1;
      status.textContent = `${bar.value} of ${files.length} runs have ended, ${succeeded} with success.`;
      setTitle(`${bar.value} of ${files.length}`);
    }
  };
  await Promise.all([work(), work(), work()]);
  removeEventListener("beforeunload", warn);
  const saved = outputs.flat();
  if (saved.length) status.after(button(`Download ${saved.length} outputs as a ZIP`, async () => {
    await Promise.all(saved.map(async ([name, href]) => [name, await (await fetch(href)).blob()])).then(zip).then((blob) => download(blob, `${model}.zip`), ({ message }) => say(`Error: no ZIP can be made: ${message}.`));
  }));
  return begun;
};

// One page for form, progress, result and earlier tries: the pages of the run stand beside the form.
const work = (form) => {
  const area = document.querySelector(".tries");
  const [now, earlier] = [".latest", ".earlier"].map((part) => area.querySelector(part));
  // Number and address of the run that is shown, and the end of its stream.
  let [turn, run, stop] = [0, undefined, () => {}];
  const compareWith = (label, source) => {
    const [figure, output] = all(".stage figure", now);
    if (!output) return say("There is no result to compare with.");
    const [caption, image] = [figure.querySelector("figcaption"), figure.querySelector("img")];
    figure.input ??= [caption.textContent, image.src];
    // The same button again brings the input back.
    const [text, src] = caption.textContent === label ? figure.input : [label, source];
    caption.textContent = text;
    Object.assign(image, { src, alt: text });
  };
  // A run that is replaced becomes a try, with its output as soon as there is one.
  const keep = async () => {
    if (!run) return;
    const [name, item] = [`Try ${earlier.children.length + 1}`, create("li")];
    const link = create("a", { href: now.querySelector("a.task")?.href ?? run, textContent: name });
    item.append(link);
    earlier.prepend(item);
    const page = now.querySelector("[data-live]") ? await settle(link).catch(() => undefined) : now;
    const source = page?.querySelector(".stage figure:last-child img")?.src;
    if (!source) return;
    link.prepend(create("img", { src: source, alt: "" }));
    item.append(button("Compare", () => compareWith(name, source)));
  };
  // Another run takes the place of the one that is shown.
  const leave = () => {
    keep();
    stop();
    [turn, run] = [turn + 1, undefined];
  };
  const show = async (address) => {
    const own = turn;
    const page = parse(await (await read(address)).text());
    if (own !== turn) return;
    run = address;
    const main = page.querySelector("main");
    main.querySelector("h1")?.remove();
    stop();
    now.replaceChildren(...main.children);
    area.hidden = false;
    document.title = page.title;
    enhance(now);
    const live = now.querySelector("[data-live]");
    if (live) return (stop = follow(live, async (isLost) => own === turn && show((isLost && now.querySelector("a.task")?.href) || address)));
    remember(now);
    say(page.title.split(" · ")[0], true);
  };
  // The progress shows what a cancel does.
  now.addEventListener("submit", (event) => {
    if (!event.target.action.endsWith("/cancel")) return;
    event.preventDefault();
    fetch(event.target.action, { method: "POST" }).catch(() => say("Error: the console does not respond."));
  });
  const from = new URLSearchParams(location.search).get("from");
  // The run of the address is shown again, unless another one has begun meanwhile.
  if (from) show(`/tasks/${encodeURIComponent(from)}`);
  form.addEventListener("submit", async (event) => {
    // A file is removed by the server.
    if (event.submitter?.name === "remove") return;
    event.preventDefault();
    const refused = form.querySelector(".drop > .error");
    if (refused) return refused.parentElement.querySelector("input").focus();
    if (form.dataset.state) return;
    const several = form.querySelector("input[type=file][multiple]");
    const files = several?.files.length > 1 ? [...several.files] : [];
    const [data, nonce, model] = [new FormData(form), form.elements.form.value, form.action.split("/").pop()];
    // The response to a script has the address of the run: the run has begun even if its page cannot be read.
    data.set("script", "");
    const send = async (file, place) => {
      for (const one of file ? [file] : data.values()) {
        if (one.name) await one.slice(0, 1).arrayBuffer().catch(() => Promise.reject(new Error(`the browser cannot read ${printable(one.name)}. Nothing was started`)));
      }
      if (file) data.set(several.name, file);
      data.set("form", `${nonce}.${place}`);
      return fetch(form.action, { method: "POST", body: data });
    };
    let begun;
    label(form, "Sending…");
    say("Sending", true);
    try {
      const response = await send(files[0], 0);
      const address = response.headers.get("location");
      const page = address ? undefined : parse(await response.clone().text());
      const mistakes = page ? all(".invalid, .failure", page) : [];
      // A mistake in the file alone is no mistake of the other runs.
      if (address || (files.length && mistakes.length && mistakes.every((mistake) => mistake.querySelector(".drop")))) {
        leave();
        all(".invalid", form).forEach((field) => field.classList.remove("invalid"));
        form.querySelector(".summary")?.remove();
        // Another click is another run.
        form.elements.form.value += ".";
        say("");
        area.hidden = false;
        if (files.length) label(form, "Running…");
        const shown = files.length ? runEach(send, model, files, now, response) : show(address);
        area.scrollIntoView({ block: "nearest" });
        begun = await shown;
      } else {
        document.title = page.title;
        const next = page.querySelector("form.run");
        if (!next) leave();
        if (next) form.replaceChildren(...next.childNodes);
        else now.replaceChildren(...page.querySelector("main").children);
        area.hidden = Boolean(next) && !now.children.length;
        say("");
        enhance(form);
        if (files.length) accept(form.querySelector(".drop"), files);
        mistakes.forEach((mistake) => mistake.classList.add("invalid"));
      }
    } catch (error) {
      say(`Error: ${error instanceof TypeError ? "the console does not respond. Runs shows whether the run was started" : error.message}.`);
    }
    label(form, "");
    const left = files.length && begun ? [...several.files].filter((file) => !begun.has(file)) : [];
    if (!left.length || left.length === several.files.length) return;
    accept(several.closest(".drop"), left);
    say("The form has the files without a result now.");
  });
};

// Examples: the URL of a sample file.
const offer = (example) => {
  example.hidden = false;
  example.addEventListener("click", () => {
    const area = example.closest(".drop");
    area.querySelector("details").open = true;
    area.querySelector("input[type=url]").value = example.dataset.url;
    accept(area, []);
  });
};

const enhance = (root) => {
  all(".example", root).forEach(offer);
  all(".drop", root).forEach(takeFiles);
  all(".number input[type=range]", root).forEach(slide);
  all(".compare", root).forEach(view);
  localize(root);
  // Browsers permit copying to pages of this machine or with TLS alone.
  for (const copy of navigator.clipboard ? all(".copy", root) : []) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(copy.parentElement.querySelector("code").textContent);
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    });
  }
  const mistakes = all(".invalid :is(textarea, input:not([type=hidden], [type=range], [type=radio]))", root);
  mistakes.forEach((control) => control.setAttribute("aria-invalid", "true"));
  root.querySelector(".invalid :is(textarea, input:not([type=hidden], [type=range]))")?.focus();
  tick();
};

// Takes a smaller copy instead of a picture.
const shrink = async (area, place, most) => {
  const files = [...area.querySelector("input[type=file]").files];
  const file = files[place];
  const bitmap = await createImageBitmap(file);
  const scale = Math.sqrt(most / (bitmap.width * bitmap.height));
  const sides = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.floor(side * scale)));
  await convert(bitmap, ...sides, file.type === "image/jpeg" ? "jpeg" : "png", file.name).then((smaller) => accept(area, files.with(place, smaller)), tell);
};

// A picture with more pixels than the model takes is named before anything is sent.
document.addEventListener("load", ({ target }) => {
  const area = target.closest?.(".preview img")?.closest(".drop");
  const input = area?.querySelector("[data-max-pixels]");
  if (!input) return;
  const most = Number(input.dataset.maxPixels);
  const pixels = target.naturalWidth * target.naturalHeight;
  const unit = most < 1e5 ? 1 : 1e5;
  const [has, takes] = [Math.ceil(pixels / unit), Math.floor(most / unit)].map((count) => (count * unit) / 1e6);
  if (pixels <= most) return;
  const error = create("p", { className: "error", role: "alert", textContent: `This picture has ${has} megapixels; this model takes at most ${takes}. ` });
  if (target.place !== undefined) error.append(button(`Make it ${takes} megapixels`, () => shrink(area, target.place, most)));
  area.append(error);
  area.closest(".field").classList.add("invalid");
}, true);

enhance(document);
all("[data-live]").forEach((area) => follow(area, reload));
all("form.run").forEach(work);
all("form.bar").forEach((form) => form.addEventListener("submit", () => form.zone && (form.zone.value = new Date(form.day.value || Date.now()).getTimezoneOffset())));
// The question before a deletion names the files.
const chosenNames = (list) => all(":checked", list).map((box) => box.closest(".card").querySelector("h2").textContent).join(", ");
all(".files").forEach((list) => list.addEventListener("change", () =>
  (list.parentElement.querySelector("details p").firstChild.textContent = `Delete ${chosenNames(list) || "no file"}? Nothing can bring back a deleted file. `)));
// A page that a browser keeps for its button Back shows no key again.
addEventListener("pagehide", () => all(".once").forEach((key) => (key.textContent = "")));
