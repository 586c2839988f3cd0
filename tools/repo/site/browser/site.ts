/// <reference lib="dom" />
import { addCopyButtons } from "./copy-code.ts";
import { setUpSearch } from "./search-box.ts";

addCopyButtons();
setUpSearch();

const navigation = document.getElementById("navigation");
const current = navigation?.querySelector<HTMLElement>("[aria-current]");
if (navigation && current && current.offsetTop > navigation.clientHeight) {
  navigation.scrollTop = current.offsetTop - navigation.clientHeight / 2;
}
