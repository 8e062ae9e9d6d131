//! Whole files of Pillow, sound and damaged.

use std::path::Path;

use proptest::prelude::*;

use crate::picture_file::{Picture, decode};

// All files and checksums are of Pillow 13.0.0 with libjpeg-turbo 3.2.0, and of NumPy 2.4.6:
//
// import io, zlib, numpy as np
// from PIL import Image, ImageFile
// ImageFile.MAXBLOCK = 1 << 20
// y, x = np.mgrid[0:14, 0:20]
// a = ((37*x + 61*y + x*y) % 256).astype("u1")
// c = np.stack([a, a.T.reshape(14, 20), 255 - a], -1)
// def file(picture, **options):
//     b = io.BytesIO(); picture.save(b, "JPEG", **options)
//     print(b.getvalue().hex(), hex(zlib.crc32(np.asarray(Image.open(b)).tobytes())))
//
// file(Image.fromarray(a), quality=100)
const GREY: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043000101010101010101010101010101010101\
    010101010101010101010101010101010101010101010101010101010101010101010101010101010101\
    0101010101ffc0000b08000e001401011100ffc4001f0000010501010101010100000000000000000102\
    030405060708090a0bffc400b5100002010303020403050504040000017d010203000411051221314106\
    13516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a34353637\
    38393a434445464748494a535455565758595a636465666768696a737475767778797a83848586878889\
    8a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6\
    d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffda0008010100003f00e674bd0f46f08e8d\
    acfecbff000dfe167fc233f0ff00e217fc24ff000e746fd8c3e01e9de04bdfdac7c7fe04d4fc09e0af17\
    78667fdbbfe2a5cebbe24ff8668f87ff001131e1f4bcf0efc31b1d3b59d73e1afc74f11f82d7c21fb5f7\
    c3ff000af8b3c4b19a9781bc2be32f0aea167e15f117c1ff001cfc1b6f10436c9f073c37f14f4ef865ff\
    0004e9fd9afc2be24d3be18df7c19d67f68dfda534ed0fc2de16fdb7fc4127c574f8437d61e191e3abad\
    3a1f8a317c55d2fc2be2cfd943c493f863e1bea5f55f807f66ff00f85e3e19b1f175af8aff00e0a81ac7\
    87edf365e13befd857e1d7fc3307ece16fe1cd5923f1b5b786fc19e00d67e3afecff00f13758ff008412\
    f7c5da878025f1afc6bf056aff001535bb5f0b58d96abe3ff1e787f48f0cf892f7e32b5f8a1e02b9fd9c\
    3e1d7c6bf08781be20699f04be2bfed0127c28d6bc110fc6dd67c3bf1b3f6cef1dfc6eb5f8afaff89bc7\
    3fb637c72b6f0a788753f0ff00c3ff00107c12f0ff008e750f147c12d0f4af8dba3789fe2f788ef2d7e2\
    4f8abe2a699a9f84fc77f08ba8f12dfdaf86bc69f11b4bf153785bc69f193f61bf83ff0012be2778ef5e\
    d4fe0ff85c7c1afd9e3e0d7893e01587ed3969e1ff00d883e0cd8f8974cd23c7df181748f16f86ecd7e2\
    47ed477d753cf3fc1ff03f817e2c37c7bf0dcfa5f89bc09f43fc09fd960fed21f0df45f8b5f09fe14fec\
    e1e2fd075cdda6dd7c46fdbaef3e3d7ed17fb47fc4cff846a283c3be13f1978cfc5fe19f88df0fecbc2f\
    e6fc32d33c05a145f0d24d47e297fc20d75a15f699a6fc59f16787db468349ffd9\
";

// file(Image.fromarray(c[:9, :17]), quality=30, subsampling=0, optimize=True)
const FULL: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043001b12141714111b1716171e1c1b2028422b\
    28252528513a3d3042605565645f555d5b6a7899816a7190735b5d85b586909ea3abadab6780bcc9baa6\
    c799a8aba4ffdb0043011c1e1e2823284e2b2b4ea46e5d6ea4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4\
    a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4ffc00011080009001103\
    011100021101031101ffc400160001010100000000000000000000000000020405ffc400291000020003\
    040a030000000000000000000102001121124174a10314314243515291a2c1c2d1f0ffc4001801000301\
    010000000000000000000000000203040005ffc400281100010106040603000000000000000000010002\
    112131415103427181124391a1d1f01361c1ffda000c03010002110311003f00340ac8a2405932177d65\
    b7b94490d931b996d7ef2a2cea013787577f4ef46e8aed605ef2a9a544c7ecf98868b313376e6eeb7b02\
    8449f4ec25335a780a4d68f4af9c3be16ae7ab2a9e163eba155e8f89876f944f89cad59fc491ccd4a09b\
    b883ee1c33e812f13269e167402edaffd9\
";

// file(Image.fromarray(c[:9]), quality=80, subsampling=1, optimize=True, restart_marker_blocks=1)
const HALF: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb00430006040506050406060506070706080a100a\
    0a09090a140e0f0c1017141818171416161a1d251f1a1b231c1616202c20232627292a29191f2d302d28\
    3025282928ffdb0043010707070a080a130a0a13281a161a282828282828282828282828282828282828\
    2828282828282828282828282828282828282828282828282828282828282828ffc00011080009001403\
    012100021101031101ffc4001800000203000000000000000000000000000004020305ffc4002a100002\
    0201020306070000000000000000010203041100051221310607223275c3364144457181b2ffc4001801\
    000301010000000000000000000000000203040507ffc4002f11000201020305040b0000000000000000\
    010211032100042205123134510632333541436171727381b1b2b3f0ffdd00040001ffda000c03010002\
    110311003f005f31c356c52ae8a90a355944511e12b90179e08099caf411b10e7cc3ceedca55ed583511\
    701ee3444c8e4c2a59199188e4ccde2278b058e39483916335aa5361549249d44c49de204309f4936a4b\
    06c77ee7590711610226d6160012b37e133558989d248913ffd0852abda5dd2a417368db858af2c6a4ba\
    d78a41c40018cca55fa01d78bf3f206a2abb5f21977346a3d10cb6218b1607da42309eb048e96c680ca6\
    cc3e2d6afbdc34b3aadada543401d040f70e18ffd1b36bfba7a0cfefe92a5f4debd2fb9a6d0e65ff00bd\
    4b6179ae5dbe9fb463ffd2d7eeff00e1c87f5fc2e8d58bdc4f857ec31cfbb41e6b9af98ff91c7fffd9\
";

// file(Image.fromarray(c), quality=60, subsampling=2, optimize=True)
const QUARTER: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f132015\
    13121213271c1e17202e2931302e292d2c333a4a3e333646372c2d405741464c4e525352323e5a615a50\
    604a51524fffdb0043010e0e0e131113261515264f352d354f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f\
    4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4fffc0001108000e001403\
    012200021101031101ffc40017000101010100000000000000000000000003000205ffc4002910000202\
    000502040700000000000000000102031100041221310522134151713235526291b1d1ffc40016010101\
    0100000000000000000000000000010204ffc40022110001030303050000000000000000000001021131\
    0003210471f04191a1b1d1ffda000c03010002110311003f003ed48a482301514c4da14d117437aa0391\
    f49dcf23e269608a590c2050698af735a02412a7c893b9df9fbb8b18be571e698b68932ae9a412092b66\
    c9f43ab8fdde1a489813282a0218f30005da88d276f5b24dff007145c19639ee31c3e4c505a01e47b7e8\
    db4d6218baa66a149f2996f12375164468dbd572d47f37efe42c753a4c7a32f24702208d267550f6c681\
    a1bfb62c61b9a9521652086dbe1a15798e2da4d7ffd9\
";

// file(Image.fromarray(c[:5, :3]), quality=80, subsampling=2, optimize=True)
const FEW: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb00430006040506050406060506070706080a100a\
    0a09090a140e0f0c1017141818171416161a1d251f1a1b231c1616202c20232627292a29191f2d302d28\
    3025282928ffdb0043010707070a080a130a0a13281a161a282828282828282828282828282828282828\
    2828282828282828282828282828282828282828282828282828282828282828ffc00011080005000303\
    012200021101031101ffc4001500010100000000000000000000000000000002ffc40020100002020103\
    050000000000000000000001030204001221310613223241ffc400150101010000000000000000000000\
    0000000506ffc4001e11000103040300000000000000000000000102030400051121123141ffda000c03\
    010002110311003f008574c1b8a5ba9d855541888c53da9f8e91a4fa3211dc827688e7ef258c622890e7\
    11ba90977898cbeb6db5e12090060740ebcaffd9\
";

const GREY_PIXELS: &str = "\
    00244a6f94b9de03284d7397bce1062b4f759abf3d6389afd5fb21476c93b9df062b51779dc3e90e7aa1\
    c8ef163e648bb2d900274e759cc3ea11385fb7df072f577fa7cff71f476e98bfe70f365f87b0f41d4670\
    98c1eb133c658eb7e009325b84add6ff315b85afd9032d5782abd5ff29537da7d0fb254f6e99c4ef1a45\
    709bc6f11c47729dc8f31e49749fabd7032f5c87b2df0b37638fbbe713406b97c3efe815426f9cc9f623\
    507daad604315e8bb8e6123f255381afdd0b386795c3f11f4d7ba9d80433618f6291c0ef1e4d7cabda09\
    396796c5f4235281b0df9fcfff305f8fbfef1f4f7fafe00f3e6f9ecfff2fdc0d3e6fa0d102336495c6f7\
    28598abbec1d4e7f194b7dafe1134577a9db0d3f71a3d507396b9dce\
";

const FULL_PIXELS: &str = "\
    2000e1104bff56bdaa4d8a8393f236cd1c48b8444500d5fd59a4e78a4c7d24abcbdf6b6b65db00e22e6b\
    0542ff2b53a85c93ba1db2ae7e8b849a00617c825caec310baea567526c02343ff2ca1b26692777a7a16\
    ff33530061ae568cff327c9f954419894963b54c7787b16590b73ad575001ab1ffac2697bb1d7248b775\
    d2f32a9f0f4a4480fc08d6a572dd756b08898166f3a78b38ff9413d67929dcb1526100e415b0ff6d6d79\
    86ff4d783441b17400ff5f0036e3ff00cfd7a9e29b692f61d3b227cd9b000c48ff3a43baf737062489f5\
    32e8f586028b57e9df9d1a46b97d000bbbae1eff8a852c7cd0457e96d222ffc9822c00945084ea5fbb1a\
    6e0d7e00d3a553b491dd0922b912a8e6910014f4d01270e45c2dff64917095e8d67f5a00ff693e0067ff\
    00b6ff96bf33ff7f0ff03a364f45b830c09dbbd200ff11005e8bde1b34ff705daf9a8bb2a2bb67fc6f91\
    005cb341939f5dff7a660a57788adeffe8301300f0ff590288ad8c0113ff413ee54a83c685ff2ab2562d\
    ff27270c9092a1d9f400629dff2375e1be00fa1300128fa120f9cc6e338fe54e071c83fa55dfd055277f\
    a56468d3a325fffd01163de054bba67f008f9b504bc09e3c2cd6f0232cd1407d8f98b886b60347\
";

const HALF_PIXELS: &str = "\
    0603c42a43d3307faa78c0b4cacfb85f4931908b78788c937fbee90c4b7459726ca39771edbe866f4841\
    202c982d62d654a7b597bda88a3844db4c684a94af9bb9d35f29409e4630df9929f7c87a351e6c4d3ab8\
    674083b58595dead8f5843421e40a43f64e9ac9efd54245884403fb7977182bf8474df9981436cb47474\
    c6862fd1b76a87bdd50b5a95406f89a1b09be8d6806761253769a43f8bdf88d4e430623c7f8430aaae4f\
    8cba7286a9a3462c8f733bd4b5a007c9cc87002e900557d44ca3ac9cc09a84422ab26646adb46e75b868\
    5cbf7e9bddb77e5d58a96880caaed6252354344b77687b9caea1b360454e8f654f886f6ba3acc9404364\
    d4abaf7a4346a8859d76709c88afe826537075865cabb986b2d6d62859773c71918a9cc25b2851b03957\
    d01c1dff302431b09d6fb2b85d2b5c8e4975a2ad9f7fa29b272d6b63699993b882cdd572a75300da7853\
    4727565167906fb576cfe984c2580adf674ca593c314368d6a5b60a77f73ffad779455363d5f8d5798d2\
    5373729f8d65f7a4628e512538678159a2cbb3c4cb71532fcc8e39df9f713514655858ba6a8d8f9ed3a7\
    b3692cd7afaf001b901550c65c9493b9be96842425ae738936aac347ddf62d5a71987b77eea36a744f1a\
    3e8e976cc4f2483a77946c77b1bd59d3f85b7f6a7b76708a94a9d635445b8e774dc5a767e2e1b5434d42\
    9396b5422e4a935b42b396886fabe90051984b7e8fb3a099921e1eb359654586a245d3f9\
";

const QUARTER_PIXELS: &str = "\
    0b1d4b37496d586878959789f1d8a07661327b8898797fb9bb94e5572b606e684e919572d7c7e2413076\
    2a26845163a182a99782b87c2d642a508a4f7c83a0a4adca4c5872777f82817c56cac59f1f2a2c4a4a6c\
    68477e997ba1bcc8b22f4127675875806ba69693da20275d4e5d6095a892bcd2bba0b89e5546437a727f\
    7074a39fb0db9ebabb2a432d858b71a89f8ee7d2d74e4d532e60546f9e989186a4674b7388829eaca3c2\
    a884b4b585b93305337d527dadafa2c8c9ce3a3766444b79729098b0cfbf3a3d287c715fc1b5a9a8aea2\
    8ab7a296c1b76b6c80a39aaf8d998f2a2424763a70c06ab5f3a1e36d1d5a4a868442676fbeb1cd392234\
    a2a48f48543e898c9f8c88a3a099a0413c2880834ebac698aabdc129484d75a87d9aae895a2338ab4e7b\
    6b1134c66d8b447f7dabc8ce34172da98593b3baa8a7b9ab26223b675e7da8aeaeb6c3a75b633097a073\
    2e393569847b75aa72a7c58f7d5850a9636dd594905f1f15605e51a99596daa3c0694a6a2f5f6d71a6aa\
    5b4949baa298a4c1a35089693976665b7e77e6d2cb61483292a675b7d29d3734137c6d4c8d834ed2ca8c\
    968372c3a49f440a206142615b8aa49fd0e154343f9a726a7e8f6f85b698376a6d7390a2b09faf6b544e\
    656c42a3b9883b4b3068785dafc795beda9d6b76686f6b60dbb8b64c2d33818a99a1a6c4e5b6ec6c345b\
    a68b804d41277d6d6e8c87a7a6befa0f2f565e6f4d9fae832d414c617c976184868eb8ae3d473e7c786f\
    b08f86765254887b958676a36e457f6d4367a79682c2b49a7b596a8e73aa6773c73f5793889584a1ac8e\
    22324939517560808da3c9ca5a4544967876e6b6b2683c4d705a98887cbcb3a4b965685776a16b9dc6a6\
    4642758965bfbb87da4e235b827b828a92879a9aa268696d8c9786bacaad4c234bb592a6cbb59e231105\
    7a6495ac9ad8c0bcd55e70645f8f5f78a38532345d8c71b8ddb1ec502a535c4d6289818ee6d8e56d5e61\
    8e8976a6a7886938ad55427a7fa568a6cd7a5c4e43ac8db6b3acef2d3065777674c9c1aa68564a7e7d79\
    6d949b88abbe5f5270a684a9cbafd8442c4c867680b5aba9511cb5584c987abf6eb8fd8691885f95738e\
    8880d6433f938a6e85dbb8a4b397705f6a4251a08d98dfe5695d819d6da1c6a1d74c315e927f95d0c0cb\
";

const FILES: [&str; 5] = [GREY, FULL, HALF, QUARTER, FEW];

fn hex(text: &str) -> Vec<u8> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(|pair| byte(pair)).collect()
}

fn picture(file: &[u8]) -> Option<Picture> {
    decode(file, Path::new("f.jpg")).ok()
}

/// Where these bytes are in a file.
fn find(file: &[u8], bytes: &[u8]) -> usize {
    let mut windows = file.windows(bytes.len());
    windows.position(|window| window == bytes).unwrap()
}

/// Where the coded data of a file start.
fn scan(file: &[u8]) -> usize {
    let mark = find(file, &[0xff, 0xda]);
    let [high, low] = [file[mark + 2], file[mark + 3]];
    mark + 2 + usize::from(u16::from_be_bytes([high, low]))
}

/// Differences are largest in the last column and row, where colours of half the resolution are cut
/// off: libjpeg repeats the last colour there, and ours goes on to what the file has beyond the edge.
#[test]
fn pixels_are_pillows_within_a_few_levels() {
    let cases = [
        (GREY, GREY_PIXELS, [20, 14], 0x1ec7_3552, [1, 1]),
        (FULL, FULL_PIXELS, [17, 9], 0x5485_bbfe, [2, 2]),
        (HALF, HALF_PIXELS, [20, 9], 0x6d10_2247, [2, 27]),
        (QUARTER, QUARTER_PIXELS, [20, 14], 0x135d_1a3a, [3, 28]),
    ];
    for (file, pillow, [width, height], checksum, [inside, edge]) in cases {
        let picture = picture(&hex(file)).unwrap();
        let pillow = hex(pillow);
        let mut crc = flate2::Crc::new();
        crc.update(&pillow);
        assert_eq!(crc.sum(), checksum, "the pixels above are Pillow's");
        assert_eq!([picture.width, picture.height], [width, height]);
        assert_eq!(picture.bytes.len(), pillow.len());
        for (i, (&ours, theirs)) in picture.bytes.iter().zip(pillow).enumerate() {
            let pixel = i / picture.channels.count();
            let [x, y] = [pixel % width, pixel / width];
            let at_edge = x + 1 == width || y + 1 == height;
            let most = if at_edge { edge } else { inside };
            assert!(ours.abs_diff(theirs) <= most, "{ours} {theirs} at {x}, {y}");
        }
    }
    assert_eq!(picture(&hex(FEW)).unwrap().bytes.len(), 3 * 3 * 5);
}

#[test]
fn nothing_cut_short_is_taken() {
    for file in FILES.map(hex) {
        for end in 0..file.len() {
            assert_eq!(picture(&file[..end]), None, "{end} of {}", file.len());
        }
        // What follows the end of the picture is not of the picture.
        let longer = [&file[..], b"more"].concat();
        assert!(picture(&longer).is_some());
        assert_eq!(picture(&longer), picture(&file));
    }
    let file = hex(FULL);
    let failure = decode(&file[..file.len() - 2], Path::new("d/f.jpg")).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "could not decode the JPEG `d/f.jpg`: it has no mark of its end\n\
         hint: the file is cut short; fetch it again"
    );
}

/// A picture inside the header, as cameras put it there, does not end the file.
#[test]
fn the_end_of_a_thumbnail_is_not_the_end() {
    let file = hex(FULL);
    let segment = [b"\xff\xe1\0\x06\xff\xd8\xff\xd9".as_slice(), &file[2..]].concat();
    let with_thumbnail = [&file[..2], &segment].concat();
    assert_eq!(picture(&with_thumbnail), picture(&file));
    assert_eq!(picture(&with_thumbnail[..with_thumbnail.len() - 2]), None);
}

/// A unit of a lone component is one block, whatever its factors say.
#[test]
fn factors_of_grey_say_nothing() {
    let mut file = hex(GREY);
    let frame = find(&file, &[0xff, 0xc0]);
    for factors in [0x22, 0x21, 0x12] {
        file[frame + 11] = factors;
        assert_eq!(picture(&file), picture(&hex(GREY)));
    }
}

#[test]
fn other_kinds_are_read_or_named() {
    let sound = hex(FULL);
    let frame = find(&sound, &[0xff, 0xc0]);
    let with = |at: usize, bytes: &[u8]| {
        let mut file = sound.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        decode(&file, Path::new("f")).map_err(|error| error.to_string())
    };
    assert!(with(frame, &[0xff, 0xc0]).is_ok());
    assert!(with(frame, &[0xff, 0xc1]).is_ok(), "extended");
    assert!(with(frame + 4, &[12]).unwrap_err().contains("12 bits"));
    assert!(with(frame + 5, &[0, 0]).is_err(), "height follows later");
    assert!(with(frame + 12, &[3]).is_err(), "steps that are not there");
}

/// Adobe's mark 0 and components called R, G and B both say that colours are stored as they are.
#[test]
fn colours_may_be_stored_as_red_green_and_blue() {
    let sound = hex(FULL);
    let adobe = |how: u8| {
        let segment = [b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0".as_slice(), &[how]].concat();
        picture(&[&sound[..2], &segment, &sound[2..]].concat())
    };
    assert_eq!(adobe(1), picture(&sound));
    let mut named = sound.clone();
    let (frame, scan) = (find(&sound, &[0xff, 0xc0]), find(&sound, &[0xff, 0xda]));
    for (i, name) in b"RGB".iter().enumerate() {
        named[frame + 10 + 3 * i] = *name;
        named[scan + 5 + 2 * i] = *name;
    }
    assert_eq!(adobe(0), picture(&named));
    assert_ne!(adobe(0), adobe(1));
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        which in 0..FILES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut file = hex(FILES[which]);
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        for file in [&file[..], &file[..end.index(file.len())]] {
            if let Some(picture) = picture(file) {
                let pixels = picture.width * picture.height;
                prop_assert_eq!(picture.bytes.len(), pixels * picture.channels.count());
            }
        }
    }

    /// Any data behind a sound header: most of it is not a picture.
    #[test]
    fn any_data_never_panic(
        which in 0..FILES.len(),
        data in prop::collection::vec(any::<u8>(), 0..500),
    ) {
        let file = hex(FILES[which]);
        let _ = picture(&[&file[..scan(&file)], &data, &[0xff, 0xd9]].concat());
    }
}
