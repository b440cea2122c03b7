// What the visitor does, and what the page shows. `window.page` has the latest results, for the check.
import { classify, fitInk, generate, loadModels } from "./models.mjs";

const COUNT = 200; // characters of a continuation
const get = (id) => document.getElementById(id);
const say = (id, text) => { get(id).textContent = text; };
const makeElement = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
const canvas = get("canvas");
const pen = canvas.getContext("2d", { willReadFrequently: true });
const page = (window.page = { drawing: null, text: null });
let models, latest; // latest: the drawing that is classified last

function clearCanvas() {
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  Object.assign(pen, { lineWidth: 14, lineCap: "round", lineJoin: "round", strokeStyle: "#14213d" });
  showResult("Nothing is drawn yet.", Object.keys(models.shapes).map(() => 0));
  page.drawing = latest = null;
}

function showResult(verdict, probabilities) {
  say("verdict", verdict);
  get("probabilities").replaceChildren(...Object.keys(models.shapes).map((name, index) => {
    const percent = (100 * probabilities[index]).toFixed(1);
    const row = makeElement("li", name);
    row.insertAdjacentHTML("beforeend", `<i><s style="width: ${percent}%"></s></i><b>${percent}&nbsp;%</b>`);
    return row;
  }));
}

async function showDrawing() {
  const { data, width, height } = pen.getImageData(0, 0, canvas.width, canvas.height);
  const brightness = Float32Array.from({ length: width * height },
    (_, i) => (data[4 * i] + data[4 * i + 1] + data[4 * i + 2]) / 765);
  const pixels = fitInk(brightness, width, height, models.side, models.margin);
  if (!pixels) return clearCanvas();
  latest = pixels;
  const { logits, probabilities } = await classify(models, pixels);
  if (latest !== pixels) return; // another stroke came meanwhile
  const best = logits.indexOf(Math.max(...logits));
  const label = Object.keys(models.shapes)[best];
  showResult(`A ${label}, with ${(100 * probabilities[best]).toFixed(1)} %`, probabilities);
  page.drawing = { label, logits, pixels: Array.from(pixels) };
}

function drawExample(lines) {
  clearCanvas();
  pen.beginPath();
  for (const line of lines) line.forEach(([x, y], i) => pen[i ? "lineTo" : "moveTo"](140 + 100 * x, 140 + 100 * y));
  pen.stroke();
  return showDrawing();
}

async function openPicture(file) {
  const picture = await createImageBitmap(file).catch(() => { throw new Error(`${file.name} is no picture.`); });
  clearCanvas();
  const scale = Math.min(canvas.width / picture.width, canvas.height / picture.height);
  const [width, height] = [picture.width * scale, picture.height * scale];
  pen.drawImage(picture, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
  return showDrawing();
}

async function continueText(prompt) {
  const result = { prompt, tokens: [], logits: [] };
  get("text").replaceChildren(makeElement("b", prompt), "");
  const began = performance.now();
  for await (const { token, letter, logits } of generate(models, prompt, COUNT)) {
    get("text").lastChild.data += letter;
    result.tokens.push(token);
    result.logits.push(logits);
    if (result.tokens.length % 8 === 0) await new Promise((resume) => setTimeout(resume)); // the browser paints
  }
  say("speed", `${COUNT} characters, ${((performance.now() - began) / COUNT).toFixed(1)} ms each.`);
  page.text = result;
}

function listen() {
  const point = (event) => [event.offsetX, event.offsetY].map((value) => value * canvas.width / canvas.clientWidth);
  let last = null; // where the pen is, while it draws
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = point(event);
    page.drawing = latest = null;
  };
  canvas.onpointermove = (event) => {
    if (!last) return;
    pen.beginPath();
    pen.moveTo(...last);
    pen.lineTo(...(last = point(event)));
    pen.stroke();
  };
  canvas.onpointerup = canvas.onpointercancel = () => { last = null; showDrawing(); };
  get("clear").onclick = clearCanvas;
  get("open").onclick = () => get("file").click();
  get("file").onchange = ({ target: { files: [file] } }) =>
    file && openPicture(file).catch((error) => say("verdict", error.message));
  get("form").onsubmit = async (event) => {
    event.preventDefault();
    get("go").disabled = true;
    await continueText(get("prompt").value).catch((error) => say("speed", error.message));
    get("go").disabled = false;
  };
  for (const [name, [lines]] of Object.entries(models.shapes)) {
    const button = makeElement("button", name);
    button.onclick = () => drawExample(lines);
    get("examples").append(button);
  }
}

try {
  if (typeof WebAssembly !== "object") throw new Error("this browser has no WebAssembly, or it is switched off.");
  models = await loadModels(await import("./ort.wasm.bundle.min.mjs"), "models");
  clearCanvas();
  listen();
  document.querySelectorAll(":disabled").forEach((element) => { element.disabled = false; });
  say("status", "Ready.");
} catch (error) {
  get("status").setAttribute("role", "alert");
  say("status", `This page does not work here: ${error.message ?? error}`);
}
