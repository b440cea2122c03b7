// Run a model with onnxruntime-web (wasm): node run_web.js FOLDER. The folder has model.onnx and
// inputs.json: name, type, dims and file of each input. Results are written in the same form.
const fs = require("fs");
const path = require("path");
const ort = require("onnxruntime-web");

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array,
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array,
};

async function main(folder) {
  ort.env.wasm.numThreads = 1;
  const model = fs.readFileSync(path.join(folder, "model.onnx"));
  const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  const feeds = {};
  for (const input of JSON.parse(fs.readFileSync(path.join(folder, "inputs.json")))) {
    const bytes = new Uint8Array(fs.readFileSync(path.join(folder, input.file))).buffer;
    feeds[input.name] = new ort.Tensor(input.type, new ARRAYS[input.type](bytes), input.dims);
  }
  const results = await session.run(feeds);
  const listed = session.outputNames.map((name, index) => {
    const { type, dims, data } = results[name];
    const file = `result${index}.bin`;
    fs.writeFileSync(path.join(folder, file), Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    return { name, type, dims, file };
  });
  fs.writeFileSync(path.join(folder, "results.json"), JSON.stringify(listed));
}

main(process.argv[2]).catch((error) => { console.error(String(error)); process.exit(1); });
