// node check.js: reads a job from stdin, draws with the mouse, opens a file and types in headless
// Chromium, and prints the numbers that the page computed.
const fs = require("fs");
const path = require("path");
const { chromium } = require("playwright-core");

async function startBrowser() {
  const { default: binary, inflate, setupLambdaEnvironment } = await import(require.resolve("@sparticuz/chromium"));
  const packed = path.join(path.dirname(require.resolve("@sparticuz/chromium")), "..", "bin", "al2023.tar.br");
  await inflate(packed); // libraries that the browser needs and a machine may lack
  if (fs.existsSync("/etc/fonts")) process.env.FONTCONFIG_PATH ??= "/etc/fonts"; // else the package's fonts
  setupLambdaEnvironment(path.join(process.env.TMPDIR, "al2023", "lib"));
  return chromium.launch({ executablePath: await binary.executablePath(), args: ["--no-sandbox"] });
}

async function drawLines(page, lines) {
  const box = await page.locator("#canvas").boundingBox();
  const locate = ([x, y]) => [box.x + box.width * (0.5 + 0.3 * x), box.y + box.height * (0.5 + 0.35 * y)];
  await page.click("#clear");
  for (const [start, ...rest] of lines) {
    await page.mouse.move(...locate(start));
    await page.mouse.down();
    for (const point of rest) await page.mouse.move(...locate(point), { steps: 4 });
    await page.mouse.up();
  }
}

async function readDrawing(page, drawn) {
  await page.waitForFunction(() => window.page.drawing);
  return { drawn, ...await page.evaluate(() => window.page.drawing) };
}

async function checkRefusals(browser, page, address) {
  await page.fill("#prompt", "ü");
  await page.press("#prompt", "Enter");
  await page.waitForSelector("text=does not know “ü”");
  const other = await browser.newPage();
  await other.addInitScript("delete globalThis.WebAssembly");
  await other.goto(address);
  await other.waitForSelector("[role=alert]:has-text('no WebAssembly')");
  await other.close();
}

async function runPage({ address, shapes, prompts, screenshot }) {
  const browser = await startBrowser();
  const page = await browser.newPage({ viewport: { width: 1040, height: 900 } });
  const [drawings, texts, errors] = [[], [], []];
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(address);
  await page.waitForSelector("#status:not(:has-text('Loading'))");
  for (const [drawn, [lines]] of Object.entries(shapes)) {
    await drawLines(page, lines);
    drawings.push(await readDrawing(page, drawn));
  }
  const buffer = await page.locator("#canvas").screenshot(); // the last drawing, as a file of the visitor
  await page.click("#clear");
  await page.setInputFiles("#file", { name: "drawing.png", mimeType: "image/png", buffer });
  drawings.push(await readDrawing(page, drawings.at(-1).drawn));
  await checkRefusals(browser, page, address);
  for (const prompt of prompts) {
    await page.fill("#prompt", prompt);
    await page.press("#prompt", "Enter");
    await page.waitForFunction((prompt) => window.page.text?.prompt === prompt, prompt);
    texts.push(await page.evaluate(() => window.page.text));
  }
  await page.click("text=star");
  if (screenshot) await page.screenshot({ path: screenshot, fullPage: true });
  await browser.close();
  return { drawings, texts, errors };
}

runPage(JSON.parse(fs.readFileSync(0))).then((results) => console.log(JSON.stringify(results)))
  .catch((error) => { console.error(error); process.exit(1); });
