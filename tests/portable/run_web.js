// Serve onnxruntime-web (wasm): node run_web.js reads folders, one a line. A folder has model.onnx
// and inputs.json: name, type, dims and file of each input. Results are written in the same form;
// the answer to a folder is a JSON string, empty or an error.
const fs = require("fs");
const path = require("path");
const readline = require("readline");
const ort = require("onnxruntime-web");

const ARRAYS = {
  float16: Uint16Array, float32: Float32Array, float64: Float64Array, int64: BigInt64Array,
  uint64: BigUint64Array, int32: Int32Array, uint32: Uint32Array, int16: Int16Array,
  uint16: Uint16Array, bool: Uint8Array, uint8: Uint8Array, int8: Int8Array,
};

async function run(folder) {
  const model = fs.readFileSync(path.join(folder, "model.onnx"));
  const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  const feeds = {};
  for (const input of JSON.parse(fs.readFileSync(path.join(folder, "inputs.json")))) {
    if (!ARRAYS[input.type]) throw new Error(`JavaScript has no ${input.type}`);
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
  await session.release();
}

async function main() {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "fatal";
  for await (const folder of readline.createInterface({ input: process.stdin })) {
    let error = "";
    await run(folder).catch((problem) => { error = String(problem.message || problem) || "error"; });
    process.stdout.write(JSON.stringify(error) + "\n");
  }
}

main();
