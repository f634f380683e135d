import puppeteer from "puppeteer-core";
const b=await puppeteer.launch({executablePath:"/usr/bin/chromium",args:["--no-sandbox","--js-flags=--expose-gc"]});
const p=await b.newPage(); await p.setViewport({width:1200,height:800});
await p.goto("http://127.0.0.1:9558/#/overview");
for (let i=0;i<=20;i++) {
  await new Promise(r=>setTimeout(r,i===0?20000:60000));
  const m=await p.evaluate(()=>{gc(); return {heap:performance.memory.usedJSHeapSize, nodes:document.querySelectorAll("*").length};});
  console.log(i, JSON.stringify(m));
}
await b.close();
