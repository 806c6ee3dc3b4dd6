from pathlib import Path
def test_look(shared_site, visit):
    page = visit(shared_site, "/")
    page.wait_for_timeout(2500)
    page.screenshot(path="/tmp/wb_1.png")
    print(page.evaluate("window.__shift"), page.url)
    page.keyboard.press("Control+k")
    page.wait_for_timeout(800)
    page.screenshot(path="/tmp/wb_2.png")
