import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A server of Prometheus metrics. */
type Scraped = { answerScrape(request: IncomingMessage, response: ServerResponse): void };

/** Returns the text that Prometheus would scrape now. */
export async function scrape(telemetry: Scraped): Promise<string> {
  const http = createServer((request, response) => {
    telemetry.answerScrape(request, response);
  }).listen(0, "127.0.0.1");
  await once(http, "listening");
  try {
    const { port } = http.address() as AddressInfo;
    return await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  } finally {
    http.closeAllConnections();
    http.close();
  }
}
