/// <reference lib="dom" />

const SHOWN_MS = 1500;

/** Adds a button to each block of code that copies it. */
export function addCopyButtons(): void {
  for (const block of document.querySelectorAll("pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      void copy(block.querySelector("code")?.textContent ?? "", button);
    });
    const frame = document.createElement("div");
    frame.className = "code";
    block.replaceWith(frame);
    frame.append(block, button);
  }
}

async function copy(text: string, button: HTMLButtonElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Failed";
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, SHOWN_MS);
}
