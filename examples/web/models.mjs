// The two models: loading, and the tensors that go in and come out. Nothing here needs a page.

async function fetchFile(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status} ${response.statusText}`);
  return response;
}

export async function loadModels(ort, folder) {
  ort.env.wasm.numThreads = 1;
  const bytes = async (name) => new Uint8Array(await (await fetchFile(`${folder}/${name}`)).arrayBuffer());
  const options = { executionProviders: ["wasm"] };
  const weights = { path: "model.onnx.data", data: await bytes("language/model.onnx.data") };
  return {
    ort, ...await (await fetchFile(`${folder}/page.json`)).json(),
    classifier: await ort.InferenceSession.create(await bytes("classifier.onnx"), options),
    language: await ort.InferenceSession.create(await bytes("language/model.onnx"), { ...options, externalData: [weights] }),
  };
}

// A drawing as the classifier was trained on: its ink fills a square of side x side but a margin.
// Most pixels are paper, whatever its color; null says that nothing is drawn.
export function fitInk(brightness, width, height, side, margin) {
  const paper = Float32Array.from(brightness).sort()[brightness.length >> 1];
  const contrast = Array.from(brightness, (value) => Math.abs(value - paper));
  const darkest = contrast.reduce((a, b) => Math.max(a, b));
  if (darkest < 0.1) return null;
  const ink = contrast.map((value) => (value < 0.25 * darkest ? 0 : value / darkest));
  let [left, top, right, bottom] = [width, height, 0, 0];
  ink.forEach((value, index) => {
    if (!value) return;
    const [x, y] = [index % width, Math.floor(index / width)];
    [left, right] = [Math.min(left, x), Math.max(right, x + 1)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y + 1)];
  });
  const scale = Math.max(right - left, bottom - top) / (side - 2 * margin);
  const fine = 4 * side; // the mean of 4 x 4 samples is a pixel
  const pixels = new Float32Array(side * side);
  for (let row = 0; row < fine; row++) for (let column = 0; column < fine; column++) {
    const x = Math.floor((left + right) / 2 + ((column + 0.5) / 4 - side / 2) * scale);
    const y = Math.floor((top + bottom) / 2 + ((row + 0.5) / 4 - side / 2) * scale);
    if (x >= 0 && x < width && y >= 0 && y < height)
      pixels[(row >> 2) * side + (column >> 2)] += ink[y * width + x] / 16;
  }
  return pixels;
}

export async function classify({ ort, classifier, side }, pixels) {
  const results = await classifier.run({ pixels: new ort.Tensor("float32", pixels, [1, 1, side, side]) });
  const logits = Array.from(results.logits.data);
  const powers = logits.map((value) => Math.exp(value - Math.max(...logits)));
  const total = powers.reduce((a, b) => a + b);
  return { logits, probabilities: powers.map((value) => value / total) };
}

// Greedy: each step reads the new tokens only, and the cache of everything before.
export async function* generate({ ort, language, characters, maxLength }, prompt, count) {
  let tokens = Array.from(prompt, (letter) => characters.indexOf(letter));
  if (tokens.includes(-1)) throw new Error(`The model does not know “${[...prompt][tokens.indexOf(-1)]}”.`);
  if (!tokens.length || tokens.length + count > maxLength)
    throw new Error(`A start has 1 to ${maxLength - count} characters.`);
  const integers = (values) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  const cache = {};
  for (const { name, shape: [, heads, , width] } of language.inputMetadata)
    if (name.startsWith("past_key_values")) cache[name] = new ort.Tensor("float32", [], [1, heads, 0, width]);
  for (let length = tokens.length, end = length + count; length < end; length++) {
    const feeds = { input_ids: integers(tokens), attention_mask: integers(Array(length).fill(1)), ...cache };
    feeds.position_ids = integers(tokens.map((_, index) => length - tokens.length + index));
    const results = await language.run(feeds);
    for (const name in cache) cache[name] = results[name.replace("past_key_values", "present")];
    const logits = Array.from(results.logits.data.slice(-characters.length));
    tokens = [logits.indexOf(Math.max(...logits))];
    yield { token: tokens[0], letter: characters[tokens[0]], logits };
  }
}
